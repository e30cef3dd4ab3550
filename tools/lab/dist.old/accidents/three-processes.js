import { inSeconds } from '../run/summary.js';
import { LEASE_MS } from '../scale.js';
import { needs, NO_EXPIRY, NO_LOCK, NO_REDIS } from './accident.js';
export const threeProcesses = {
    id: 'p1-p2-p3',
    name: 'P1 dies, P2 and P3 both see it',
    how: 'P1 is killed while it holds; P2 and P3 both see the expired lock before one of them takes it; P2 goes first, then P3',
    cannotHappenTo: (stage) => needs(stage, { lock: NO_LOCK, redis: NO_REDIS, expiry: NO_EXPIRY }),
    async play(scene) {
        const [p1, p2, p3] = await scene.callers(['P1', 'P2', 'P3']);
        p1.buy({ stopAt: ['inside'] });
        await p1.reaches('inside');
        const looks = scene.stage.traits.includes('client clock');
        for (const waiter of [p2, p3]) {
            waiter.buy({ stopAt: looks ? ['saw expired', 'inside'] : ['inside'] });
            await waiter.asks();
        }
        await p1.kill('SIGKILL while it holds the lock');
        if (looks) {
            // In the other stages nobody looks first: the command that finds the lock expired also takes it.
            await p2.reaches('saw expired');
            await p3.reaches('saw expired');
            scene.mark('P2 and P3 have both seen that the lock expired');
            p2.go('saw expired');
            await p2.reaches('inside');
            scene.mark('P3 goes on with what it saw');
            const before = Number(await scene.redis.get(scene.key));
            p3.go('saw expired');
            await p3.stillWaits();
            const later = Number(await scene.redis.get(scene.key)) - before;
            if (!p3.did('hold') && later > 0) {
                scene.remark(`the loser moved the end of the winner's lock by ${inSeconds(later)}`);
            }
        }
        await scene.until(() => p2.did('hold') || p3.did('hold'), LEASE_MS * 3);
        const [first, second] = p2.did('hold') ? [p2, p3] : [p3, p2];
        await first.reaches('inside');
        if (!(await second.stillWaits()))
            await second.reaches('inside');
        second.goOn();
        if (second.did('hold'))
            await second.ends();
        first.goOn();
    },
};
//# sourceMappingURL=three-processes.js.map