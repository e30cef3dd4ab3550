import { setTimeout as sleep } from 'node:timers/promises';
import { LEASE_MS, RETRY_MS, seconds } from '../scale.js';
import { lockAround } from './stage.js';
export const getset = {
    number: 10,
    name: 'GETSET',
    lesson: 'GETSET tells which of two waiters was first: the one that gets the dead value back.',
    breaks: 'It needs synchronised clocks, knows no owner, and a reply of nil crashes a naive int().',
    traits: ['lock', 'redis', 'expiry', 'client clock'],
    open(tools) {
        const { redis } = tools;
        const expiry = () => Date.now() + LEASE_MS + seconds(1);
        return lockAround({
            async acquire(key) {
                while ((await redis.setnx(key, expiry())) === 0) {
                    // Breaks here: the lock may be gone by now, and the reply nil.
                    if (int(await redis.get(key)) < Date.now()) {
                        // The loser still overwrites the expiry of the winner.
                        if (int(await redis.getset(key, expiry())) < Date.now())
                            return;
                    }
                    await sleep(RETRY_MS);
                }
            },
            // Breaks here: this checks the time, but not whose lock it is.
            async release(key) {
                if (Date.now() < Number(await redis.get(key)))
                    await redis.del(key);
            },
        }, tools);
    },
};
/** Like int() of Python, which the article uses: it throws at nil. */
function int(reply) {
    if (reply === null)
        throw new TypeError('int() argument must be a string, not nil');
    return Number.parseInt(reply, 10);
}
//# sourceMappingURL=10-getset.js.map