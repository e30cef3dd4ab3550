import { LEASE_MS } from '../scale.js';
import { needs, NO_LOCK, NO_REDIS } from './accident.js';
const APART_MS = 2_000;
export const clocksApart = {
    id: 'clocks',
    name: 'clocks 2 s apart',
    how: 'the clock of B is 2 s ahead; A works for two thirds of the time that its lock lasts',
    cannotHappenTo: (stage) => needs(stage, { lock: NO_LOCK, redis: NO_REDIS }),
    async play(scene) {
        const [a, b] = await scene.callers(['A', 'B'], {
            each: [{}, { clockOffsetMs: APART_MS }],
        });
        a.buy({ stopAt: ['inside'] });
        await a.reaches('inside');
        scene.mark('A has the lock; for B it is 2 s later');
        b.buy();
        if (await b.holds(LEASE_MS * 0.66))
            await b.ends();
        a.goOn();
    },
};
//# sourceMappingURL=clocks-apart.js.map