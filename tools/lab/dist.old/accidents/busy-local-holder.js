import { LEASE_MS } from '../scale.js';
import { needs, NO_LOCK } from './accident.js';
const TURNS = 100;
export const busyLocalHolder = {
    id: 'busy',
    name: 'busy local holder',
    how: 'two callers of one process pass the lock to each other without a pause; B, in another process, waits for it',
    cannotHappenTo: (stage) => needs(stage, {
        lock: NO_LOCK,
        redis: 'nobody waits in another process',
        'local hand-over': 'does not pass the lock on locally: who is next is luck',
    }),
    async play(scene) {
        const [a1, b] = await scene.callers(['A1', 'B']);
        const a2 = a1.alongside('A2');
        for (const caller of [a1, a2])
            caller.buy({ times: 0, quantity: 0, workMs: [2, 2] });
        const turns = () => scene.events.filter(({ kind }) => kind === 'committed').length;
        await scene.until(() => turns() > 10, LEASE_MS * 4);
        b.buy();
        await b.asks();
        const before = turns();
        await scene.until(() => b.did('hold') || turns() > before + TURNS, LEASE_MS * 10);
        const gone = turns() - before;
        if (b.did('hold'))
            scene.remark(`let in after ${gone} turns of the other process`);
        else
            scene.saw('locked for ever', `not let in while the other process had ${gone} turns`);
        for (const caller of [a1, a2])
            caller.goOn();
        await b.ends();
    },
};
//# sourceMappingURL=busy-local-holder.js.map