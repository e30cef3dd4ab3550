import { LEASE_MS } from '../scale.js';
import { needs, NO_LOCK, NO_REDIS } from './accident.js';
export const failover = {
    id: 'failover',
    name: 'main Redis killed before it replicated',
    how: 'A takes the lock while nothing reaches the replica; the main server is killed, the replica becomes main, and B asks there',
    cannotHappenTo: (stage) => needs(stage, { lock: NO_LOCK, redis: NO_REDIS }),
    async play(scene) {
        const pair = await scene.replicatedRedis();
        const [a, b] = await scene.callers(['A', 'B']);
        await pair.stopReplication();
        a.buy({ stopAt: ['inside', 'renewal'] }); // all of it happens before A's next renewal
        await a.reaches('inside');
        await pair.failOver();
        scene.mark('main killed, replica promoted: it has never heard of the lock');
        b.buy();
        if (await b.holds(LEASE_MS * 2))
            await b.ends(LEASE_MS * 0.2);
        scene.mark('A finishes its work');
        if (scene.stage.number === 17) {
            scene.remark('two may hold it for a moment, and the fence lets them write one after the other');
        }
        a.goOn();
    },
};
//# sourceMappingURL=failover.js.map