import { setTimeout as sleep } from 'node:timers/promises';
import { RETRY_MS } from '../scale.js';
import { lockAround } from './stage.js';
export const getThenSet = {
    number: 5,
    name: 'GET then SET',
    lesson: 'Looking and taking must be one step.',
    breaks: 'Two callers pass the look together.',
    traits: ['lock', 'redis', 'several commands'],
    open(tools) {
        const { redis } = tools;
        return lockAround({
            async acquire(key) {
                while ((await redis.get(key)) !== null)
                    await sleep(RETRY_MS);
                // Breaks here: somebody else has looked as well, and has seen nothing.
                await redis.set(key, 'locked');
            },
            release: (key) => redis.del(key),
        }, tools);
    },
};
//# sourceMappingURL=05-get-then-set.js.map