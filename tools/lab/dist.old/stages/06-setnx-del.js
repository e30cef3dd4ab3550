import { setTimeout as sleep } from 'node:timers/promises';
import { RETRY_MS } from '../scale.js';
import { lockAround } from './stage.js';
export const setnxDel = {
    number: 6,
    name: 'SETNX, DEL',
    lesson: 'SETNX looks and takes in one step.',
    breaks: 'A holder that dies never sends DEL: locked for ever.',
    traits: ['lock', 'redis'],
    open(tools) {
        const { redis } = tools;
        return lockAround({
            async acquire(key) {
                while ((await redis.setnx(key, 'locked')) === 0)
                    await sleep(RETRY_MS);
            },
            // Breaks here, if this line is never reached.
            release: (key) => redis.del(key),
        }, tools);
    },
};
//# sourceMappingURL=06-setnx-del.js.map