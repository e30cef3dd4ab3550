import type { Redis } from 'ioredis';
import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { LEASE_MS, RENEW_EVERY_MS } from '../scale.js';
import { lockStage, NotHeld, type Stage } from './stage.js';

/** Prolongs the key of its owner. */
export const RENEW_KEY = `
  if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('PEXPIRE', KEYS[1], ARGV[2]) end
  return 0`;

const RELEASE_AND_SIGNAL = `
  if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
  redis.call('DEL', KEYS[1])
  redis.call('DEL', KEYS[2])
  redis.call('LPUSH', KEYS[2], 1)
  redis.call('PEXPIRE', KEYS[2], ARGV[2])
  return 1`;

/** nil means taken, perhaps once more by the same owner; a number says how long the present lease lasts. */
const ACQUIRE_HASH = `
  if redis.call('EXISTS', KEYS[1]) == 0 or redis.call('HEXISTS', KEYS[1], ARGV[1]) == 1 then
    redis.call('HINCRBY', KEYS[1], ARGV[1], 1)
    redis.call('PEXPIRE', KEYS[1], ARGV[2])
    return nil
  end
  return redis.call('PTTL', KEYS[1])`;

const RENEW_HASH = `
  if redis.call('HEXISTS', KEYS[1], ARGV[1]) == 0 then return 0 end
  return redis.call('PEXPIRE', KEYS[1], ARGV[2])`;

const RELEASE_HASH = `
  if redis.call('HEXISTS', KEYS[1], ARGV[1]) == 0 then return nil end
  if redis.call('HINCRBY', KEYS[1], ARGV[1], -1) > 0 then
    redis.call('PEXPIRE', KEYS[1], ARGV[2])
    return 0
  end
  redis.call('DEL', KEYS[1])
  redis.call('PUBLISH', KEYS[1] .. ':released', 1)
  return 1`;

/** Stages 14 and 15: locks that renew themselves. */
export const RENEWING: readonly Stage[] = [
  lockStage({
    id: '14',
    name: 'Lua, renewal, wake-up list',
    lesson: 'A worker renews while the work runs, and a list wakes the next one: no polling.',
    breaks: 'A lost lock is told at release, when the work is committed. One worker for each lock.',
    traits: ['lock', 'redis', 'expiry', 'renewal'],
    lock({ redis, withConnection }) {
      return {
        async acquire(key) {
          const owner = randomUUID();
          while ((await redis.set(key, owner, 'PX', LEASE_MS, 'NX')) === null) {
            // A release wakes a waiter, but a dead holder does not, so it looks again from time to time.
            await withConnection((own) => own.blpop(`${key}:signal`, RENEW_EVERY_MS / 1_000));
          }
          return { owner, worker: renew(redis, RENEW_KEY, key, owner) };
        },
        async release(key, { owner, worker }) {
          clearInterval(worker);
          const released = await redis.eval(
            RELEASE_AND_SIGNAL,
            2,
            key,
            `${key}:signal`,
            owner,
            LEASE_MS,
          );
          // Breaks here: too late for the work.
          if (released === 0) throw new NotHeld('NotAcquired');
        },
      };
    },
  }),
  lockStage({
    id: '15',
    name: 'watchdog, hash, pub/sub',
    lesson:
      'The reference design: 30 s renewed every 10 s, re-entry counted, waiters woken by a message.',
    breaks: 'A lost lock is told at release, when the work is committed. A failover loses it.',
    traits: ['lock', 'redis', 'expiry', 'renewal'],
    async lock({ redis }) {
      const subscriber = redis.duplicate();
      const waiters = new Set<() => void>();
      await subscriber.psubscribe('*:released');
      subscriber.on('pmessage', () => waiters.forEach((wake) => wake()));

      return {
        async acquire(key) {
          const owner = randomUUID();
          for (;;) {
            let wake = (): void => {};
            const woken = new Promise<void>((resolve) => waiters.add((wake = resolve)));
            const remainingMs = await redis.eval(ACQUIRE_HASH, 1, key, owner, LEASE_MS);
            if (remainingMs !== null) await Promise.race([woken, sleep(Number(remainingMs))]);
            waiters.delete(wake);
            if (remainingMs === null) break;
          }
          return { owner, watch: renew(redis, RENEW_HASH, key, owner) };
        },
        async release(key, { owner, watch }) {
          const released = await redis.eval(RELEASE_HASH, 1, key, owner, LEASE_MS);
          clearInterval(watch);
          // Breaks here: too late for the work.
          if (released === null) throw new NotHeld('IllegalMonitorStateException');
        },
        close: () => subscriber.disconnect(),
      };
    },
  }),
];

/** Runs the script that renews a lock until it says that the lock is somebody else's. */
function renew(redis: Redis, script: string, key: string, owner: string): NodeJS.Timeout {
  const timer = setInterval(() => {
    void redis.eval(script, 1, key, owner, LEASE_MS).then((renewed) => {
      // Breaks here: the renewal ends, and the holder of the lock goes on.
      if (renewed === 0) clearInterval(timer);
    });
  }, RENEW_EVERY_MS);
  return timer;
}
