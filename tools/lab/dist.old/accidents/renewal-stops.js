import { setTimeout as sleep } from 'node:timers/promises';
import { inSeconds } from '../run/summary.js';
import { LEASE_MS } from '../scale.js';
import { needs } from './accident.js';
export const renewalStops = {
    id: 'renewal',
    name: 'renewal stops',
    how: 'the commands by which A renews are held back until its lock has expired and B is in; then they arrive, while A works on',
    cannotHappenTo: (stage) => needs(stage, { renewal: 'has no renewal' }),
    async play(scene) {
        const [a, b] = await scene.callers(['A', 'B']);
        a.buy({ stopAt: ['inside', 'renewal'] });
        await a.reaches('inside');
        b.buy({ stopAt: ['inside'] });
        await a.reaches('renewal');
        scene.mark('renewals of A do not get through any more');
        if (await b.holds(LEASE_MS * 3)) {
            await sleep(LEASE_MS * 0.1);
            const before = await scene.redis.pttl(scene.key);
            a.go('renewal');
            await scene.until(() => false, LEASE_MS * 0.02);
            const longer = (await scene.redis.pttl(scene.key)) - before;
            if (longer > 0)
                scene.remark(`A prolonged the lock of B by ${inSeconds(longer)}`);
        }
        scene.mark('A finishes its work');
        a.goOn();
        await a.ends();
        b.goOn();
    },
};
//# sourceMappingURL=renewal-stops.js.map