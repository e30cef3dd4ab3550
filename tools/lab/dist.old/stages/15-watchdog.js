import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { LEASE_MS, RENEW_EVERY_MS } from '../scale.js';
import { lockAround } from './stage.js';
/** nil means taken, perhaps once more by the same owner; a number says how long the present lease lasts. */
const ACQUIRE = `
  if redis.call('EXISTS', KEYS[1]) == 0 or redis.call('HEXISTS', KEYS[1], ARGV[1]) == 1 then
    redis.call('HINCRBY', KEYS[1], ARGV[1], 1)
    redis.call('PEXPIRE', KEYS[1], ARGV[2])
    return nil
  end
  return redis.call('PTTL', KEYS[1])`;
const RENEW = `
  if redis.call('HEXISTS', KEYS[1], ARGV[1]) == 0 then return 0 end
  return redis.call('PEXPIRE', KEYS[1], ARGV[2])`;
const RELEASE = `
  if redis.call('HEXISTS', KEYS[1], ARGV[1]) == 0 then return nil end
  if redis.call('HINCRBY', KEYS[1], ARGV[1], -1) > 0 then
    redis.call('PEXPIRE', KEYS[1], ARGV[2])
    return 0
  end
  redis.call('DEL', KEYS[1])
  redis.call('PUBLISH', KEYS[1] .. ':released', 1)
  return 1`;
export const watchdog = {
    number: 15,
    name: 'watchdog, hash, pub/sub',
    lesson: 'The reference design: 30 s renewed every 10 s, re-entry counted, waiters woken by a message.',
    breaks: 'The holder is not told of a loss, and a failover loses the lock.',
    traits: ['lock', 'redis', 'expiry', 'renewal'],
    async open(tools) {
        const { redis } = tools;
        const subscriber = redis.duplicate();
        const waiters = new Set();
        await subscriber.psubscribe('*:released');
        subscriber.on('pmessage', () => waiters.forEach((wake) => wake()));
        return lockAround({
            async acquire(key) {
                const owner = randomUUID();
                for (;;) {
                    let wake = () => { };
                    const woken = new Promise((resolve) => waiters.add((wake = resolve)));
                    const remainingMs = await redis.eval(ACQUIRE, 1, key, owner, LEASE_MS);
                    if (remainingMs !== null)
                        await Promise.race([woken, sleep(Number(remainingMs))]);
                    waiters.delete(wake);
                    if (remainingMs === null)
                        break;
                }
                const watch = setInterval(() => {
                    void redis.eval(RENEW, 1, key, owner, LEASE_MS).then((renewed) => {
                        // Breaks here: the entry is dropped from the schedule, and that is all.
                        if (renewed === 0)
                            clearInterval(watch);
                    });
                }, RENEW_EVERY_MS);
                return { owner, watch };
            },
            async release(key, { owner, watch }) {
                await redis.eval(RELEASE, 1, key, owner, LEASE_MS);
                clearInterval(watch);
            },
            close: () => subscriber.disconnect(),
        }, tools);
    },
};
//# sourceMappingURL=15-watchdog.js.map