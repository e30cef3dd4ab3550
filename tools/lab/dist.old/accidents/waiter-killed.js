import { LEASE_MS } from '../scale.js';
import { blocksNobody, needs, NO_LOCK } from './accident.js';
export const waiterKilled = {
    id: 'waiter',
    name: 'a waiter takes over and dies',
    how: 'B has waited, gets the lock when A releases it, and is killed while it holds it; C waits',
    cannotHappenTo: (stage) => needs(stage, { lock: NO_LOCK }) ?? blocksNobody(stage),
    async play(scene) {
        const [a, b, c] = await scene.callers(['A', 'B', 'C']);
        a.buy({ stopAt: ['inside'] });
        await a.reaches('inside');
        b.buy({ stopAt: ['inside'] });
        await b.asks();
        a.goOn();
        await a.ends();
        await b.holds(LEASE_MS * 2);
        await b.reaches('inside');
        c.buy();
        await c.asks();
        await b.kill('SIGKILL while it holds what it waited for');
        await scene.entersOrIsStuck(c);
    },
};
//# sourceMappingURL=waiter-killed.js.map