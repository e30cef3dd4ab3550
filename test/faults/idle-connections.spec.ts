/** Connections that a load balancer or router has dropped silently. */
import { afterAll, describe, expect, it } from '@jest/globals';
import { RedisReplicaSet } from 'dev-servers';
import { LockAbortedError } from 'nestjs-locked';
import { setTimeout as sleep } from 'node:timers/promises';
import { type Clock, systemClock } from '../../libs/nestjs-locked/src/core/time/clock.js';
import { afterTest } from '../support/after-test.js';
import { concurrentIt } from '../support/concurrent.js';
import { CountingClock } from '../support/counting-clock.js';
import { eventually } from '../support/eventually.js';
import { ForgettingProxy } from '../support/forgetting-proxy.js';
import { LockObserver } from '../support/lock-observer.js';
import { LockProcess } from '../support/lock-process.js';
import { openAdmin, openLocks, openLocksOn } from '../support/open-locks.js';
import { startRedisServer, useRedisServer } from '../support/own-redis.js';
import { SlowClock } from '../support/slow-clock.js';
import { uniqueKey } from '../support/unique-key.js';

/** Each connection is checked every second, and a command times out after 1 s. */
const LEASE_MS = 3_000;
const CHECK_MS = 1_000;
/**
 * How much slower the clock runs: a single try has 1 s, including the replacement of a connection, which may take
 * longer on a busy machine.
 */
const SLOWER = 2;
/**
 * Upper bound for replacing a connection. On an idle machine it takes 500 ms, the time that an idle connection has to
 * reply.
 */
const REPLACED_MS = 3_000 * SLOWER;

afterAll(() => LockProcess.endAll());
const server = useRedisServer();
const observer = new LockObserver(server);

/** Opens two lock services; the proxy drops the connections of the first. */
async function forgotten(forgetAfterMs: number, leaseMs = LEASE_MS, clock: Clock = systemClock) {
  const proxy = await ForgettingProxy.start(server.port, forgetAfterMs);
  const { engine, events, store } = await openLocks(proxy.url, { leaseMs, clock });
  const other = await openLocks(server.url, { leaseMs });
  const outages = () => events.filter(({ type }) => type === 'store-lost');
  /** Waits until both connections are dropped again. */
  const idle = async (): Promise<void> => {
    const before = proxy.forgotten;
    await eventually(() => expect(proxy.forgotten).toBeGreaterThanOrEqual(before + 2));
  };
  return { proxy, engine, events, store, other: other.engine, outages, idle };
}

describe.each([
  ['sooner than it is checked', 300 * SLOWER, LEASE_MS],
  ['sooner than it is checked, with the defaults', 1_000 * SLOWER, 30_000],
])('a connection that is dropped %s', (_, forgetAfterMs, leaseMs) => {
  concurrentIt(
    'a single try of a free key succeeds, again and again, and no outage is reported',
    async () => {
      const { engine, events, outages, idle } = await forgotten(
        forgetAfterMs,
        leaseMs,
        new SlowClock(SLOWER),
      );
      for (let i = 0; i < 2; i++) {
        await idle();
        const before = performance.now();
        const lock = await engine.tryAcquire(uniqueKey());
        expect(lock).not.toBeNull();
        expect(performance.now() - before).toBeLessThan(REPLACED_MS);
        await lock?.release();
      }
      expect(outages()).toEqual([]);
      const replaced = () => events.filter((event) => event.type === 'connection-replaced');
      for (const purpose of ['commands', 'messages']) {
        const told = new RegExp(`^The connection for ${purpose} was idle`);
        await eventually(
          () =>
            expect(replaced().map(({ cause }) => cause.message)).toContainEqual(
              expect.stringMatching(told),
            ),
          60_000,
        );
      }
    },
  );
});

describe('a connection to the master that sentinels name', () => {
  concurrentIt(
    'is replaced within the call if it was dropped: a single try of a free key succeeds',
    async () => {
      const set = await RedisReplicaSet.start();
      afterTest(() => set.stop());
      const { port } = await set.master();
      const proxy = await ForgettingProxy.start(port, 1_000 * SLOWER);
      const natMap = { [`127.0.0.1:${port}`]: { host: '127.0.0.1', port: proxy.port } };
      const { sentinels, name } = set;
      const { engine, events } = await openLocksOn(
        { sentinels, name, natMap },
        { clock: new SlowClock(SLOWER) },
      );
      for (let i = 0; i < 2; i++) {
        const before = proxy.forgotten;
        await eventually(() => expect(proxy.forgotten).toBeGreaterThanOrEqual(before + 2));
        const askedAt = performance.now();
        const lock = await engine.tryAcquire(uniqueKey());
        expect(lock).not.toBeNull();
        expect(performance.now() - askedAt).toBeLessThan(REPLACED_MS);
        await lock?.release();
      }
      expect(new Set(events.map(({ type }) => type))).toEqual(new Set(['connection-replaced']));
    },
  );
});

describe('a connection that takes long to be replaced', () => {
  concurrentIt('is not an outage as long as commands have time', async () => {
    const { proxy, engine, events, outages, idle } = await forgotten(1_500, 30_000);
    await idle();
    proxy.delayMs = 1_000;
    const askedAt = performance.now();
    await (await engine.acquire(uniqueKey())).release();
    expect(performance.now() - askedAt).toBeGreaterThan(1_000); // no reply could arrive earlier
    expect(events.some(({ type }) => type === 'connection-replaced')).toBe(true);
    expect(outages()).toEqual([]);
  });
});

describe('a connection that is dropped sooner than it is checked', () => {
  const FORGET_MS = 300;

  it('a release, a renewal and a wait succeed', async () => {
    const { engine, events, other, outages, idle } = await forgotten(FORGET_MS);
    const key = uniqueKey();
    const lock = await engine.acquire(key, { leaseMs: 60_000 });
    await idle();
    await lock.ensureRemaining(200_000);
    expect(lock.remainingMs()).toBeGreaterThan(200_000);
    await idle();
    const waiting = other.acquire(key);
    await observer.waiting(key, 1);
    expect(await lock.release()).toBe(true);
    const next = await waiting;

    await idle();
    const before = performance.now();
    const last = engine.acquire(key);
    await observer.waiting(key, 1);
    expect(performance.now() - before).toBeLessThan(REPLACED_MS);
    await next.release();
    await (await last).release();
    expect(outages()).toEqual([]);
    expect(events.filter(({ type }) => type === 'lost')).toEqual([]);
  });

  it('an operator revokes a lock, which must not be done twice', async () => {
    const { engine, other, idle } = await forgotten(FORGET_MS);
    const key = uniqueKey();
    const lock = await other.acquire(key);
    await idle();
    expect(await engine.forceRelease(key)).toBe(true);
    await eventually(() => expect(lock.signal.aborted).toBe(true));
    expect(await engine.inspect(key)).not.toBeNull();
  });

  it('leaves nothing behind when the locks are closed', async () => {
    const clock = new CountingClock();
    const proxy = await ForgettingProxy.start(server.port, FORGET_MS);
    const { engine, events } = await openLocks(proxy.url, { leaseMs: LEASE_MS, clock });
    await eventually(() =>
      expect(events.filter(({ type }) => type === 'connection-replaced').length).toBeGreaterThan(2),
    );
    const lock = engine.tryAcquire(uniqueKey()).catch((error: unknown) => error);
    const before = performance.now();
    await engine.close(2_000);
    expect(performance.now() - before).toBeLessThan(3_000);
    expect(await lock).toBeInstanceOf(LockAbortedError);
    expect(clock.timers).toBe(0);
  });
});

describe('a connection that would be dropped later than it is checked', () => {
  concurrentIt('is never dropped: no command has to wait', async () => {
    const { engine, events, proxy } = await forgotten(3 * CHECK_MS);
    const before = proxy.forgotten;
    await sleep(5 * CHECK_MS);
    expect(await engine.tryAcquire(uniqueKey())).not.toBeNull();
    expect(proxy.forgotten).toBe(before);
    expect(events).toEqual([]);
  });
});

describe('a server that was replaced by another one', () => {
  concurrentIt(
    'is noticed within the interval, though no connection breaks: held locks are lost, and waiters get their messages',
    async () => {
      const [first, second] = [
        await startRedisServer(),
        await startRedisServer('--maxmemory', '100mb', '--maxmemory-policy', 'allkeys-lru'),
      ];
      const proxy = await ForgettingProxy.start(first.port, 60_000);
      const { engine, events, store } = await openLocks(proxy.url, { leaseMs: LEASE_MS * 10 });
      const lock = await engine.acquire(uniqueKey());
      proxy.moveTo(second.port);
      const movedAt = performance.now();
      await eventually(() => expect(lock.signal.aborted).toBe(true), 9_000);
      expect(performance.now() - movedAt).toBeLessThan(9_000); // the next renewal is due after 10 s

      await eventually(() => expect(events.map(({ type }) => type)).toContain('eviction')); // the server was checked

      const key = uniqueKey();
      const other = (await openLocks(second.url, { leaseMs: 60_000 })).engine;
      await eventually(() => expect(store.listensFor(key)).toBe(true));
      const held = await other.acquire(key);
      const waiting = engine.acquire(key);
      await new LockObserver({ admin: openAdmin(second.url) }).waiting(key, 1);
      const releasedAt = performance.now();
      await held.release();
      await (await waiting).release();
      expect(performance.now() - releasedAt).toBeLessThan(4_000); // without messages, it polls after 5 s
    },
  );
});
