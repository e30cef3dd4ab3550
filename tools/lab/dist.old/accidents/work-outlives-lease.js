import { LEASE_MS } from '../scale.js';
export const workOutlivesLease = {
    id: 'long-work',
    name: 'work outlives the expiry',
    how: 'A reads the stock and works for half as long again as the lock lasts; B wants to buy in the meantime',
    cannotHappenTo: () => undefined,
    async play(scene) {
        const [a, b] = await scene.callers(['A', 'B']);
        a.buy({ stopAt: ['inside'] });
        await a.reaches('inside');
        b.buy();
        // Waits until B has got in and is done, or until A's lease should have ended long ago.
        if (await b.holds(LEASE_MS * 1.5))
            await b.ends();
        scene.mark('A finishes its work');
        a.goOn();
    },
};
//# sourceMappingURL=work-outlives-lease.js.map