import { LEASE_MS } from '../scale.js';
import { needs, NO_EXPIRY, NO_LOCK, NO_REDIS } from './accident.js';
export const expiredBeforeRemoval = {
    id: 'get-del',
    name: 'expiry between GET and DEL',
    how: 'the lock of A expires right before A sends the command that removes it; B takes it, then A goes on, and C asks',
    cannotHappenTo: (stage) => needs(stage, { lock: NO_LOCK, redis: NO_REDIS, expiry: NO_EXPIRY }),
    async play(scene) {
        const [a, b, c] = await scene.callers(['A', 'B', 'C']);
        a.buy({ stopAt: ['removal'] });
        await a.reaches('removal');
        b.buy({ stopAt: ['inside'] });
        await b.asks();
        await scene.expireNow();
        scene.mark('expired, A has not sent its command yet');
        await b.holds(LEASE_MS * 2);
        await b.reaches('inside');
        scene.mark('A goes on and releases what it no longer has');
        a.go('removal');
        await a.ends();
        c.buy({ stopAt: ['inside'] });
        await c.asks();
        if (!(await c.stillWaits()))
            await c.reaches('inside');
        b.goOn();
        if (c.did('hold'))
            await b.ends();
        c.goOn();
    },
};
//# sourceMappingURL=expired-before-removal.js.map