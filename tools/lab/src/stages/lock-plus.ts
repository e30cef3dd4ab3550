import type { Redis } from 'ioredis';
import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { LEASE_MS, RENEW_EVERY_MS, RETRY_MS, seconds } from '../scale.js';
import { RENEW_KEY } from './renewing.js';
import { type Lock, lockStage, type Stage, type StageTools } from './stage.js';
import { RELEASE } from './with-commands.js';

/** Stage 16: a map of the locks held here, one timer that renews them all, and a lease that is learned. */
export const LOCK_PLUS: readonly Stage[] = [
  lockStage({
    id: '16',
    name: '"lock plus"',
    lesson:
      'Faster: a local map saves the way to Redis, one timer renews all, the lease is learned.',
    breaks:
      'It cannot wait for another process: the map has no entry then, and the next line reads a field of it.',
    traits: ['lock', 'redis', 'expiry', 'renewal'],
    lock: lockPlus,
  }),
  lockStage({
    id: '16b',
    name: '"lock plus" with hand-over',
    lesson: 'A repair: it waits for other processes, and passes the lock on to its own callers.',
    breaks: 'A busy process keeps the lock to itself, and renewal and loss are two commands apart.',
    traits: ['lock', 'redis', 'expiry', 'renewal', 'local hand-over'],
    lock: lockPlusWithHandOver,
  }),
];

interface Entry {
  readonly requestId: string;
  readonly leaseMs: number;
  readonly start: number;
  /** When it ends, as this process reckons. */
  end: number;
  count: number;
}

function lockPlus({ redis }: StageTools): Lock<void> {
  const heldHere = new Map<string, Entry>();
  let isOpen = true;

  async function renewAll(): Promise<void> {
    for (; isOpen; await sleep(seconds(1))) {
      for (const [key, entry] of heldHere) {
        if (entry.end - Date.now() >= seconds(5)) continue;
        const renewed = await redis.eval(RENEW_KEY, 1, key, entry.requestId, entry.leaseMs);
        // Breaks here: nobody is told.
        if (renewed === 0) heldHere.delete(key);
        // Breaks here: from the second renewal on, this is later than the end in Redis.
        entry.end = entry.start + 2 * (entry.end - entry.start) - seconds(5);
      }
    }
  }
  void renewAll();

  return {
    async acquire(key) {
      const requestId = randomUUID();
      for (;;) {
        if (!heldHere.has(key)) {
          const leaseMs = await learnedLease(redis, key);
          const start = Date.now();
          if ((await redis.set(key, requestId, 'PX', leaseMs, 'NX')) === 'OK') {
            heldHere.set(key, { requestId, leaseMs, start, end: start + leaseMs, count: 1 });
            return;
          }
        }
        // Breaks here: if another process has the lock, there is no entry.
        const entry = heldHere.get(key)!;
        if (entry.requestId === requestId) return void (entry.count += 1);
        await sleep(seconds(0.1));
      }
    },
    async release(key) {
      // Breaks here, too, if a renewal has removed the entry.
      const entry = heldHere.get(key)!;
      if ((entry.count -= 1) > 0) return;
      heldHere.delete(key);
      await redis.eval(RELEASE, 1, key, entry.requestId);
      await learn(redis, key, Date.now() - entry.start, entry.leaseMs);
    },
    close: () => void (isOpen = false),
  };
}

/** What this process holds. Breaks here: an entry is found by the lock's name, whoever the holder is. */
interface HeldHere {
  readonly requestId: string;
  readonly leaseMs: number;
  readonly since: number;
  count: number;
  readonly localWaiters: (() => void)[];
}

function lockPlusWithHandOver({ redis }: StageTools): Lock<void> {
  const heldHere = new Map<string, HeldHere>();

  const timer = setInterval(() => {
    for (const [key, { requestId, leaseMs }] of heldHere) void renewIfMine(key, requestId, leaseMs);
  }, RENEW_EVERY_MS);

  async function renewIfMine(key: string, requestId: string, leaseMs: number): Promise<void> {
    if ((await redis.get(key)) !== requestId) return; // Breaks here: nobody is told.
    // Breaks here: the lock may belong to somebody else by now.
    await redis.pexpire(key, leaseMs);
  }

  async function acquire(key: string, requestId: string = randomUUID()): Promise<void> {
    const held = heldHere.get(key);
    if (held?.requestId === requestId) held.count += 1;
    else if (held !== undefined) {
      // Redis is not asked: a local holder will pass the lock on. Breaks here: to nobody else.
      await new Promise<void>((resolve) => held.localWaiters.push(resolve));
    } else {
      const leaseMs = await learnedLease(redis, key);
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
      await learn(redis, key, Date.now() - held.since, held.leaseMs);
    },
    close: () => clearInterval(timer),
  };
}

/** What the work took on average, plus 10 s; the time-out if nothing was learned yet. */
async function learnedLease(redis: Redis, key: string): Promise<number> {
  const average = await redis.get(`${key}_renew`);
  return average === null ? LEASE_MS : Math.ceil(Number(average)) + seconds(10);
}

async function learn(redis: Redis, key: string, tookMs: number, leaseMs: number): Promise<void> {
  if (tookMs < leaseMs - seconds(5)) return;
  const before = await redis.get(`${key}_renew`);
  const average = before === null ? tookMs : Number(before) * 0.8 + tookMs * 0.2;
  await redis.set(`${key}_renew`, average, 'PX', seconds(24 * 3_600));
}
