import { randomUUID } from 'node:crypto';
import { LEASE_MS, RENEW_EVERY_MS } from '../scale.js';
import { lockAround } from './stage.js';
const RENEW = `
  if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('PEXPIRE', KEYS[1], ARGV[2]) end
  return 0`;
const RELEASE = `
  if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
  redis.call('DEL', KEYS[1])
  redis.call('DEL', KEYS[2])
  redis.call('LPUSH', KEYS[2], 1)
  redis.call('PEXPIRE', KEYS[2], ARGV[2])
  return 1`;
export const renewalAndWakeUp = {
    number: 14,
    name: 'Lua, renewal, wake-up list',
    lesson: 'A worker renews while the work runs, and a list wakes the next one: no polling.',
    breaks: 'When the renewal stops, nobody tells the holder. One worker for each lock.',
    traits: ['lock', 'redis', 'expiry', 'renewal'],
    open(tools) {
        const { redis } = tools;
        return lockAround({
            async acquire(key) {
                const owner = randomUUID();
                while ((await redis.set(key, owner, 'PX', LEASE_MS, 'NX')) === null) {
                    // A release wakes a waiter, but a dead holder does not, so it looks again from time to time.
                    await tools.withConnection((own) => own.blpop(`${key}:signal`, RENEW_EVERY_MS / 1_000));
                }
                const worker = setInterval(() => {
                    void redis.eval(RENEW, 1, key, owner, LEASE_MS).then((renewed) => {
                        // Breaks here: the worker ends, and the holder of the lock goes on.
                        if (renewed === 0)
                            clearInterval(worker);
                    });
                }, RENEW_EVERY_MS);
                return { owner, worker };
            },
            async release(key, { owner, worker }) {
                clearInterval(worker);
                await redis.eval(RELEASE, 2, key, `${key}:signal`, owner, LEASE_MS);
            },
        }, tools);
    },
};
//# sourceMappingURL=14-renewal-and-wake-up.js.map