import { setTimeout as sleep } from 'node:timers/promises';
import { LEASE_MS, RETRY_MS } from '../scale.js';
import { lockAround } from './stage.js';
export const setnxExpire = {
    number: 7,
    name: 'SETNX then EXPIRE',
    lesson: 'A lock has to end on its own when its holder cannot end it.',
    breaks: 'Taking and expiring are two commands: who dies between them locks for ever.',
    traits: ['lock', 'redis', 'expiry', 'several commands'],
    open(tools) {
        const { redis } = tools;
        return lockAround({
            async acquire(key) {
                while ((await redis.setnx(key, 'locked')) === 0)
                    await sleep(RETRY_MS);
                // Breaks here: a lock without an end, until the next line has run.
                await redis.pexpire(key, LEASE_MS);
            },
            release: (key) => redis.del(key),
        }, tools);
    },
};
//# sourceMappingURL=07-setnx-expire.js.map