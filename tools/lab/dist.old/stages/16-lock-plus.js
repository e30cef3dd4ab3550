import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { LEASE_MS, RENEW_EVERY_MS, RETRY_MS, seconds } from '../scale.js';
import { lockAround } from './stage.js';
const RELEASE = `
  if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end
  return 0`;
export const lockPlus = {
    number: 16,
    name: '"lock plus"',
    lesson: 'Faster: a local map saves the way to Redis, one timer renews all, the lease is learned.',
    breaks: 'A busy process keeps the lock to itself, and renewal and loss are two commands apart.',
    traits: ['lock', 'redis', 'expiry', 'renewal', 'local hand-over'],
    open(tools) {
        const { redis } = tools;
        const heldHere = new Map();
        const timer = setInterval(() => {
            for (const [key, { requestId, leaseMs }] of heldHere)
                void renew(key, requestId, leaseMs);
        }, RENEW_EVERY_MS);
        async function renew(key, requestId, leaseMs) {
            if ((await redis.get(key)) !== requestId)
                return; // Breaks here: nobody is told.
            // Breaks here: the lock may belong to somebody else by now.
            await redis.pexpire(key, leaseMs);
        }
        /** What the work took on average, plus 10 s; the time-out if nothing was learned yet. */
        async function learnedLease(key) {
            const average = await redis.get(`${key}_renew`);
            return average === null ? LEASE_MS : Math.ceil(Number(average)) + seconds(10);
        }
        async function learn(key, tookMs, leaseMs) {
            if (tookMs < leaseMs - seconds(5))
                return;
            const before = await redis.get(`${key}_renew`);
            const average = before === null ? tookMs : Number(before) * 0.8 + tookMs * 0.2;
            await redis.set(`${key}_renew`, average, 'PX', seconds(24 * 3_600));
        }
        return lockAround({
            async acquire(key, requestId = randomUUID()) {
                const held = heldHere.get(key);
                if (held?.requestId === requestId)
                    held.count += 1;
                else if (held !== undefined) {
                    // Redis is not asked: a local holder will pass the lock on. Breaks here: to nobody else.
                    await new Promise((resolve) => held.localWaiters.push(resolve));
                }
                else {
                    const leaseMs = await learnedLease(key);
                    while ((await redis.set(key, requestId, 'PX', leaseMs, 'NX')) === null) {
                        if (heldHere.has(key))
                            return this.acquire(key);
                        await sleep(RETRY_MS);
                    }
                    const since = Date.now();
                    heldHere.set(key, { requestId, leaseMs, since, count: 1, localWaiters: [] });
                }
            },
            async release(key) {
                const held = heldHere.get(key);
                if (held === undefined || (held.count -= 1) > 0)
                    return;
                const next = held.localWaiters.shift();
                if (next !== undefined) {
                    held.count = 1;
                    return next();
                }
                heldHere.delete(key);
                await redis.eval(RELEASE, 1, key, held.requestId);
                await learn(key, Date.now() - held.since, held.leaseMs);
            },
            close: () => clearInterval(timer),
        }, tools);
    },
};
//# sourceMappingURL=16-lock-plus.js.map