import { afterAll, afterEach, beforeEach, describe, expect } from '@jest/globals';
import { LockService, RedisLockModule } from 'nestjs-locked';
import { setTimeout as sleep } from 'node:timers/promises';
import type { HeldLock } from '../../libs/nestjs-locked/src/core/calls/held-lock.js';
import { afterTest } from '../support/after-test.js';
import { eventually } from '../support/eventually.js';
import { fault } from '../support/fault-report.js';
import { makeGate } from '../support/gate.js';
import { LockObserver } from '../support/lock-observer.js';
import { LockProcess, sharedNow } from '../support/lock-process.js';
import { startNest } from '../support/nest-app.js';
import { openAdmin, openLocks } from '../support/open-locks.js';
import { useRedisServer } from '../support/own-redis.js';
import { uniqueKey } from '../support/unique-key.js';

const LEASE_MS = 1_500;
/** Outlasts a pause of one second on a busy machine. */
const SAFE_LEASE_MS = 3_000;
/** Upper bound for what takes milliseconds on an idle machine. */
const SOON_MS = 5_000;

afterAll(() => LockProcess.endAll());
const server = useRedisServer();
const observer = new LockObserver(server);
let key: string;

beforeEach(() => {
  key = uniqueKey();
});

afterEach(() => LockProcess.closeAll());

describe('a holder', () => {
  fault(
    'Redis errors on renewal for less than the lease, then recovers',
    'lock kept, one warning [R26]',
    async (measure) => {
      const leaseMs = 6_000;
      const { engine, events } = await openLocks(server.url, { leaseMs });
      const admin = openAdmin(server.url);
      const lock = await engine.acquire(key);
      const held = await observer.holder(key);

      await sleep(leaseMs / 3 - 500); // the first renewal is due while errors occur
      afterTest(() => admin.replicaof('NO', 'ONE'));
      await admin.replicaof('127.0.0.1', 1);
      const types = (): string[] => events.map(({ type }) => type);
      await eventually(() => expect(types()).toContain('renewal-unknown'));
      await sleep(500); // several attempts fail
      const lowest = lock.remainingMs();
      await admin.replicaof('NO', 'ONE');
      await eventually(() => expect(lock.remainingMs()).toBeGreaterThan(lowest));
      await sleep(leaseMs / 2);

      expect(lock.signal.aborted).toBe(false);
      expect(types()).toEqual(['store-lost', 'renewal-unknown', 'store-back']);
      expect(await observer.holder(key)).toBe(held);
      expect(await lock.release()).toBe(true);
      measure('left of the lease at the worst', lowest, 'ms');
    },
  );

  fault(
    'key deleted by an operator',
    "'deleted' at the next renewal, never re-created [D115, G9]",
    async (measure) => {
      const { engine, events } = await openLocks(server.url, { leaseMs: SAFE_LEASE_MS });
      const lock = await engine.acquire(key);

      await server.admin.del(`lock:{${key}}`);
      const ms = await toldAfter(lock);

      expect(lock.signal.reason).toMatchObject({ code: 'LOCK_LOST', reason: 'deleted' });
      await sleep(SAFE_LEASE_MS / 2); // renewals would be sent in this time
      expect(await observer.holder(key)).toBeNull();
      expect(await lock.release()).toBe(false);
      expect(await observer.holder(key)).toBeNull();
      expect(events).toMatchObject([{ type: 'lost' }]);
      expect(ms).toBeLessThan((10 * SAFE_LEASE_MS) / 3);
      measure('told after', ms, `ms of ${SAFE_LEASE_MS / 3}`);
    },
  );

  fault(
    'key evicted, because the memory is full and the policy allows it',
    "'deleted' at the next renewal [G9]",
    async (measure) => {
      const { engine, events } = await openLocks(server.url, { leaseMs: SAFE_LEASE_MS });
      const lock = await engine.acquire(key);
      const admin = openAdmin(server.url);
      afterTest(async () => {
        await admin.config('SET', 'maxmemory', '0');
        await admin.config('SET', 'maxmemory-policy', 'noeviction');
      });

      await admin.config('SET', 'maxmemory-policy', 'volatile-random'); // locks only: nothing else expires
      await admin.config('SET', 'maxmemory', '1');
      await eventually(async () => {
        await admin.get(key); // Redis evicts when it executes a command
        expect(await observer.holder(key)).toBeNull();
      });
      await admin.config('SET', 'maxmemory', '0');
      const ms = await toldAfter(lock);

      expect(lock.signal.reason).toMatchObject({ code: 'LOCK_LOST', reason: 'deleted' });
      expect(await observer.holder(key)).toBeNull();
      expect(events.map(({ type }) => type)).toEqual(['lost']);
      measure('told after', ms, `ms of ${SAFE_LEASE_MS / 3}`);
    },
  );

  fault(
    'key overwritten by an operator',
    "'deleted' at the next renewal, and the other client's key is not touched",
    async (measure) => {
      const { engine, events } = await openLocks(server.url, { leaseMs: SAFE_LEASE_MS });
      const lock = await engine.acquire(key);

      await server.admin.set(`lock:{${key}}`, 'a stranger', 'PX', 100_000);
      const ms = await toldAfter(lock);

      expect(events).toMatchObject([{ type: 'lost', error: { reason: 'deleted' } }]);
      expect(await lock.release()).toBe(false);
      await sleep(SAFE_LEASE_MS / 2);
      expect(await observer.holder(key)).toBe('a stranger');
      const pttl = await server.admin.pttl(`lock:{${key}}`);
      expect(pttl).toBeGreaterThan(100_000 - 10 * SOON_MS);
      expect(pttl).toBeLessThanOrEqual(100_000);
      expect(ms).toBeLessThan((10 * SAFE_LEASE_MS) / 3);
      measure('told after', ms, `ms of ${SAFE_LEASE_MS / 3}`);
    },
  );

  fault(
    'key deleted while others wait',
    'the holder is told, a waiter enters with a higher token, and its key is not touched [G9]',
    async (measure) => {
      const first = await openLocks(server.url, { leaseMs: SAFE_LEASE_MS });
      const second = await openLocks(server.url, { leaseMs: SAFE_LEASE_MS });
      const lock = await first.engine.acquire(key);
      const waiting = second.engine.acquire(key);
      await observer.waiting(key, 1);

      const from = sharedNow();
      await observer.endLease(key);
      const next = await waiting;
      const ms = sharedNow() - from;
      const token = await observer.holder(key);
      await toldAfter(lock);

      expect(lock.signal.reason).toMatchObject({ reason: 'deleted' });
      expect(next.fencingToken).toBeGreaterThan(lock.fencingToken);
      expect(await lock.release()).toBe(false);
      expect(await observer.holder(key)).toBe(token);
      expect(await next.release()).toBe(true);
      expect(ms).toBeLessThan(SOON_MS);
      measure('entered after', ms, 'ms');
    },
  );

  fault(
    '200,000 other keys with TTL present',
    "a dead holder's key is taken over on time [D103]",
    async (measure) => {
      const admin = openAdmin(server.url);
      // Half of the keys expire during the test, which keeps the expiry cycle of Redis busy.
      const populate = `for i = 1, 20000 do
        redis.call('SET', ARGV[1] .. i, 'x', 'PX', i % 2 == 0 and 600000 or 500 + i % 4000)
      end`;
      for (let i = 0; i < 10; i++) await admin.eval(populate, 0, `other:${i}:`);
      expect(await admin.dbsize()).toBeGreaterThan(100_000);

      const [holder, waiter] = await LockProcess.startMany(2, {
        redisUrl: server.url,
        leaseMs: LEASE_MS,
      });
      await holder!.hold(key).entered;
      const waiting = waiter!.hold(key, { ms: 0 });
      await observer.waiting(key, 1);
      await holder!.kill();
      const { earliest, latest } = await observer.leaseEnd(key);
      const { entered } = await waiting.entered;

      expect(entered).toBeGreaterThanOrEqual(earliest);
      expect(entered).toBeLessThan(latest + SOON_MS);
      measure('entered', entered - earliest, 'ms after the end of the lease');
      await waiting.ended;
      await admin.flushall();
    },
  );

  fault(
    'maxHoldMs passed while the handler runs',
    "aborts with 'max-hold', not renewed, not passed to the next local caller",
    async (measure) => {
      const maxHoldMs = 500;
      const { engine } = await openLocks(server.url, { leaseMs: LEASE_MS });
      const from = sharedNow();
      const lock = await engine.acquire(key, { maxHoldMs });
      const token = await observer.holder(key);
      const next = engine.acquire(key).then((held) => ({ held, entered: sharedNow() }));

      const ms = await toldAfter(lock, from);
      expect(lock.signal.reason).toMatchObject({ code: 'LOCK_LOST', reason: 'max-hold' });
      const end = await observer.leaseEnd(key);
      expect(await observer.holder(key)).toBe(token);

      // The handler never ends, so the next caller enters when the lease expires, with a new token.
      const { held, entered } = await next;
      expect(entered).toBeGreaterThanOrEqual(end.earliest);
      expect(entered).toBeLessThan(end.latest + SOON_MS);
      expect(await observer.holder(key)).not.toBe(token);
      expect(held.fencingToken).toBeGreaterThan(lock.fencingToken);
      expect(await lock.release()).toBe(false);
      expect(held.isHeld).toBe(true);
      expect(await held.release()).toBe(true);
      expect(ms).toBeGreaterThanOrEqual(maxHoldMs - 1);
      expect(ms).toBeLessThan(10 * maxHoldMs);
      measure('told after', ms, `ms of ${maxHoldMs}`);
      measure('the next entered', entered - end.earliest, 'ms after the end of the lease');
    },
  );
});

describe('clocks', () => {
  fault(
    'wall clock of the process stepped an hour either way',
    'no effect on exclusion [D119, G6]',
    async (measure) => {
      let offset = 0;
      const wallNow = Date.now;
      Date.now = () => wallNow() + offset;
      afterTest(() => {
        Date.now = wallNow;
      });
      const { engine, events } = await openLocks(server.url, { leaseMs: SAFE_LEASE_MS });
      const other = await openLocks(server.url, { leaseMs: SAFE_LEASE_MS });
      const lock = await engine.acquire(key);
      const token = await observer.holder(key);
      const waiting = other.engine.acquire(key);
      let entered = false;
      waiting.then(
        () => (entered = true),
        () => {},
      );

      for (const hours of [1, -1, 0]) {
        offset = hours * 3_600_000;
        await sleep(SAFE_LEASE_MS / 2);
        expect(lock.isHeld).toBe(true);
        expect(entered).toBe(false);
        expect(await observer.holder(key)).toBe(token);
      }
      expect(events).toEqual([]);
      expect(await lock.release()).toBe(true);
      const next = await waiting;
      expect(next.fencingToken).toBeGreaterThan(lock.fencingToken);
      measure('losses and warnings', events.length);
    },
  );

  fault("Redis' clock stepped back an hour", 'tokens still rise', async (measure) => {
    const { engine } = await openLocks(server.url, { leaseMs: LEASE_MS });
    const admin = openAdmin(server.url);
    // The state left by a server whose clock was an hour ahead.
    const ahead = (Date.now() + 3_600_000) * 1_000;
    await admin.set('lock:fence', ahead);
    const tokens: number[] = [];
    for (let i = 0; i < 20; i++) {
      const lock = await engine.acquire(key);
      tokens.push(lock.fencingToken);
      await lock.release();
    }
    expect(tokens[0]).toBeGreaterThan(ahead);
    expect(tokens).toEqual([...new Set(tokens)].sort((a, b) => a - b));
    measure('tokens that rose', tokens.length);
  });
});

describe('the application', () => {
  fault(
    'closed while handlers hold locks',
    'handlers finish, their locks are renewed meanwhile and released afterwards, waiters are rejected, Redis is closed last',
    async (measure) => {
      const leaseMs = 1_500;
      const holds = 10;
      await eventually(async () => expect(await connections()).toBe(1)); // the connection of this test
      const app = await startNest({
        imports: [RedisLockModule.forRoot({ connection: server.url, leaseMs, shutdownMs: 20_000 })],
      });
      const locks = app.get(LockService);
      const keys = Array.from({ length: holds }, () => uniqueKey());
      const order: string[] = [];
      const losses: unknown[] = [];
      const end = makeGate();
      let running = 0;
      const handlers = keys.map((held) =>
        locks.withLock(held, async (lock) => {
          lock.signal.addEventListener('abort', () => losses.push(lock.signal.reason));
          running++;
          await end.opened;
          lock.assertHeld();
          order.push('handler ended');
        }),
      );
      await eventually(() => expect(running).toBe(holds));
      const tokens = await Promise.all(keys.map((held) => observer.holder(held)));
      const waiter = locks.acquire(keys[0]!).catch((error: unknown) => error);

      const closing = app.close().then(() => order.push('closed'));
      expect(await waiter).toMatchObject({ code: 'LOCK_ABORTED' });
      await sleep(2 * leaseMs);
      expect(await Promise.all(keys.map((held) => observer.holder(held)))).toEqual(tokens);
      expect(await connections()).toBe(3);
      expect(order).toEqual([]);

      const from = sharedNow();
      end.open();
      await Promise.all(handlers);
      await closing;
      const ms = sharedNow() - from;

      expect(losses).toEqual([]);
      expect(order).toEqual([...keys.map(() => 'handler ended'), 'closed']);
      expect(await server.admin.exists(...keys.map((held) => `lock:{${held}}`))).toBe(0);
      await eventually(async () => expect(await connections()).toBe(1));
      expect(ms).toBeLessThan(SOON_MS);
      measure('locks kept', `${holds} for ${2 * leaseMs} ms (lease ${leaseMs})`);
      measure('closed', ms, 'ms after the last handler');
    },
  );
});

async function connections(): Promise<number> {
  return String(await server.admin.call('CLIENT', 'LIST'))
    .trim()
    .split('\n').length;
}

/** @returns how many milliseconds after `from` the signal of the lock aborts */
function toldAfter(lock: HeldLock, from = sharedNow()): Promise<number> {
  const { signal } = lock;
  return new Promise((resolve) => {
    const told = (): void => resolve(sharedNow() - from);
    if (signal.aborted) told();
    else signal.addEventListener('abort', told, { once: true });
  });
}
