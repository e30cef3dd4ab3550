import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { LEASE_MS, RETRY_MS } from '../scale.js';
import { lockAround } from './stage.js';
export const ownerId = {
    number: 11,
    name: 'SET NX EX, GET then DEL',
    lesson: 'A lock has an owner, and taking it with an expiry is one command.',
    breaks: 'Between GET and DEL the lock can expire; the fallback path forgets the expiry.',
    traits: ['lock', 'redis', 'expiry'],
    open(tools) {
        const { redis } = tools;
        return lockAround({
            async acquire(key) {
                const owner = randomUUID();
                if ((await redis.set(key, owner, 'PX', LEASE_MS, 'NX')) === 'OK')
                    return owner;
                // Breaks here: the path of a waiter sets no expiry.
                while ((await redis.setnx(key, owner)) === 0)
                    await sleep(RETRY_MS);
                return owner;
            },
            async release(key, owner) {
                if ((await redis.get(key)) !== owner)
                    return;
                // Breaks here: it was mine when I looked.
                await redis.del(key);
            },
        }, tools);
    },
};
//# sourceMappingURL=11-owner-id.js.map