import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { LEASE_MS, RETRY_MS } from '../scale.js';
import { lockAround } from './stage.js';
export const watchMultiExec = {
    number: 12,
    name: 'WATCH, MULTI, EXEC',
    lesson: 'An optimistic transaction deletes only what has not changed since the look.',
    breaks: 'Giving back is right now; taking is SETNX and EXPIRE still.',
    traits: ['lock', 'redis', 'expiry', 'several commands'],
    open(tools) {
        const { redis } = tools;
        return lockAround({
            async acquire(key) {
                const owner = randomUUID();
                while ((await redis.setnx(key, owner)) === 0)
                    await sleep(RETRY_MS);
                // Breaks here: a lock without an end, until the next line has run.
                await redis.pexpire(key, LEASE_MS);
                return owner;
            },
            release: (key, owner) => tools.withConnection(async (own) => {
                await own.watch(key);
                if ((await own.get(key)) !== owner)
                    return own.unwatch();
                await own.multi({ pipeline: false });
                await own.del(key);
                return own.exec();
            }),
        }, tools);
    },
};
//# sourceMappingURL=12-watch-multi-exec.js.map