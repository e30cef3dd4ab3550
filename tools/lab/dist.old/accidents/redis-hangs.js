import { setTimeout as sleep } from 'node:timers/promises';
import { LEASE_MS } from '../scale.js';
import { needs, NO_LOCK, NO_REDIS } from './accident.js';
export const redisHangs = {
    id: 'hang',
    name: 'Redis hangs',
    how: 'Redis is paused (SIGSTOP) for longer than the lock lasts, while A holds and B waits; then it goes on',
    cannotHappenTo: (stage) => needs(stage, { lock: NO_LOCK, redis: NO_REDIS }),
    async play(scene) {
        const server = await scene.ownRedis();
        const [a, b] = await scene.callers(['A', 'B']);
        a.buy({ stopAt: ['inside'] });
        await a.reaches('inside');
        b.buy();
        await b.asks();
        server.pause();
        scene.mark('Redis paused');
        await sleep(LEASE_MS * 1.3);
        server.resume();
        scene.mark('Redis goes on');
        if (!(await b.stillWaits()))
            await b.ends(LEASE_MS * 0.2);
        scene.mark('A finishes its work');
        a.goOn();
    },
};
//# sourceMappingURL=redis-hangs.js.map