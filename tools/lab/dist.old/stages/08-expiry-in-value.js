import { setTimeout as sleep } from 'node:timers/promises';
import { LEASE_MS, RETRY_MS } from '../scale.js';
import { lockAround } from './stage.js';
export const expiryInValue = {
    number: 8,
    name: 'expiry in the value, DEL when past',
    lesson: 'With the expiry time as value, taking and expiring are one command.',
    breaks: 'Two waiters see the same dead lock; the second one deletes the lock of the first.',
    traits: ['lock', 'redis', 'expiry', 'client clock'],
    open(tools) {
        const { redis } = tools;
        return lockAround({
            async acquire(key) {
                for (;;) {
                    if ((await redis.setnx(key, Date.now() + LEASE_MS)) === 1)
                        return;
                    const expiry = await redis.get(key);
                    if (expiry !== null && Number(expiry) < Date.now()) {
                        // Breaks here: nobody asks whose lock it is by now.
                        await redis.del(key);
                        if ((await redis.setnx(key, Date.now() + LEASE_MS)) === 1)
                            return;
                    }
                    await sleep(RETRY_MS);
                }
            },
            release: (key) => redis.del(key),
        }, tools);
    },
};
//# sourceMappingURL=08-expiry-in-value.js.map