import { LEASE_MS } from '../scale.js';
import { needs, NO_LOCK, NO_REDIS } from './accident.js';
export const passedOnAfterLoss = {
    id: 'passed-on',
    name: 'lost, and passed on locally',
    how: 'A1 holds and A2 of the same process waits; renewals are held back until the lock has expired and B, elsewhere, is in; then A1 is done',
    cannotHappenTo: (stage) => needs(stage, {
        lock: NO_LOCK,
        redis: NO_REDIS,
        'local hand-over': 'does not pass the lock on locally',
    }),
    async play(scene) {
        const [a1, b] = await scene.callers(['A1', 'B']);
        const a2 = a1.alongside('A2');
        a1.buy({ stopAt: ['inside', 'renewal'] });
        await a1.reaches('inside');
        a2.buy({ stopAt: ['inside', 'renewal'] });
        b.buy({ stopAt: ['inside'] });
        await a1.reaches('renewal');
        await b.holds(LEASE_MS * 3);
        scene.mark('B has the lock; A1 is done and lets the next one in');
        a1.go('inside');
        await a1.ends(LEASE_MS);
        await a2.holds(LEASE_MS * 0.3);
        if (b.did('hold'))
            await b.reaches('inside');
        b.goOn();
        await b.ends(LEASE_MS);
        for (const caller of [a1, a2])
            caller.goOn();
    },
};
//# sourceMappingURL=passed-on-after-loss.js.map