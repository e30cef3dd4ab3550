import type { Redis } from 'ioredis';
import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { LEASE_MS, RENEW_EVERY_MS, RETRY_MS, seconds } from '../scale.js';
import { lockStage, type Stage } from './stage.js';
import { RELEASE } from './with-commands.js';

const RENEW_KEY = `
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

/** What this process holds. Breaks here: an entry is found by the lock's name, whoever the holder is. */
interface HeldHere {
  readonly requestId: string;
  readonly leaseMs: number;
  readonly since: number;
  count: number;
  readonly localWaiters: (() => void)[];
}

/** Stages 14 to 16: locks that renew themselves. */
export const RENEWING: readonly Stage[] = [
  lockStage({
    number: 14,
    name: 'Lua, renewal, wake-up list',
    lesson: 'A worker renews while the work runs, and a list wakes the next one: no polling.',
    breaks: 'When the renewal stops, nobody tells the holder. One worker for each lock.',
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
          await redis.eval(RELEASE_AND_SIGNAL, 2, key, `${key}:signal`, owner, LEASE_MS);
        },
      };
    },
  }),
  lockStage({
    number: 15,
    name: 'watchdog, hash, pub/sub',
    lesson:
      'The reference design: 30 s renewed every 10 s, re-entry counted, waiters woken by a message.',
    breaks: 'The holder is not told of a loss, and a failover loses the lock.',
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
          await redis.eval(RELEASE_HASH, 1, key, owner, LEASE_MS);
          clearInterval(watch);
        },
        close: () => subscriber.disconnect(),
      };
    },
  }),
  lockStage({
    number: 16,
    name: '"lock plus"',
    lesson:
      'Faster: a local map saves the way to Redis, one timer renews all, the lease is learned.',
    breaks: 'A busy process keeps the lock to itself, and renewal and loss are two commands apart.',
    traits: ['lock', 'redis', 'expiry', 'renewal', 'local hand-over'],
    lock({ redis }) {
      const heldHere = new Map<string, HeldHere>();

      const timer = setInterval(() => {
        for (const [key, { requestId, leaseMs }] of heldHere)
          void renewIfMine(key, requestId, leaseMs);
      }, RENEW_EVERY_MS);

      async function renewIfMine(key: string, requestId: string, leaseMs: number): Promise<void> {
        if ((await redis.get(key)) !== requestId) return; // Breaks here: nobody is told.
        // Breaks here: the lock may belong to somebody else by now.
        await redis.pexpire(key, leaseMs);
      }

      /** What the work took on average, plus 10 s; the time-out if nothing was learned yet. */
      async function learnedLease(key: string): Promise<number> {
        const average = await redis.get(`${key}_renew`);
        return average === null ? LEASE_MS : Math.ceil(Number(average)) + seconds(10);
      }

      async function learn(key: string, tookMs: number, leaseMs: number): Promise<void> {
        if (tookMs < leaseMs - seconds(5)) return;
        const before = await redis.get(`${key}_renew`);
        const average = before === null ? tookMs : Number(before) * 0.8 + tookMs * 0.2;
        await redis.set(`${key}_renew`, average, 'PX', seconds(24 * 3_600));
      }

      async function acquire(key: string, requestId: string = randomUUID()): Promise<void> {
        const held = heldHere.get(key);
        if (held?.requestId === requestId) held.count += 1;
        else if (held !== undefined) {
          // Redis is not asked: a local holder will pass the lock on. Breaks here: to nobody else.
          await new Promise<void>((resolve) => held.localWaiters.push(resolve));
        } else {
          const leaseMs = await learnedLease(key);
          while ((await redis.set(key, requestId, 'PX', leaseMs, 'NX')) === null) {
            if (heldHere.has(key)) return acquire(key);
            await sleep(RETRY_MS);
          }
          const since = Date.now();
          heldHere.set(key, { requestId, leaseMs, since, count: 1, localWaiters: [] });
        }
      }

      return {
        acquire: (key) => acquire(key),
        async release(key) {
          const held = heldHere.get(key);
          if (held === undefined || (held.count -= 1) > 0) return;
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
