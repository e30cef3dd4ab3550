import { setTimeout as sleep } from 'node:timers/promises';
import { LEASE_MS, RETRY_MS } from '../scale.js';
import { lockAround } from './stage.js';
export const expiryOverwritten = {
    number: 9,
    name: 'expiry in the value, SET when past',
    lesson: 'Overwriting instead of deleting saves a command and changes nothing.',
    breaks: 'Two waiters see the same dead lock, and both overwrite it.',
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
                        // Breaks here: SET succeeds for everybody.
                        await redis.set(key, Date.now() + LEASE_MS);
                        return;
                    }
                    await sleep(RETRY_MS);
                }
            },
            release: (key) => redis.del(key),
        }, tools);
    },
};
//# sourceMappingURL=09-expiry-overwritten.js.map