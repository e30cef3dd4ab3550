import { describe, expect, it } from '@jest/globals';
import { Redis } from 'ioredis';
import { once } from 'node:events';
import { hostname } from 'node:os';
import { setTimeout as sleep } from 'node:timers/promises';
import { LockEngine } from '../../libs/nestjs-locked/src/core/engine/lock-engine.js';
import { LockError, LockStoreError } from '../../libs/nestjs-locked/src/core/lock.errors.js';
import type { Lock } from '../../libs/nestjs-locked/src/core/lock.js';
import type { LockServiceOptions } from '../../libs/nestjs-locked/src/core/lock.options.js';
import { resolveServiceOptions } from '../../libs/nestjs-locked/src/core/resolved.options.js';
import { type Clock, systemClock } from '../../libs/nestjs-locked/src/core/time/clock.js';
import { RedisLockStore } from '../../libs/nestjs-locked/src/redis/redis-lock-store.js';
import { afterTest } from '../support/after-test.js';
import { eventually } from '../support/eventually.js';
import { LockObserver } from '../support/lock-observer.js';
import { openAdmin, openLocks } from '../support/open-locks.js';
import { startRedisServer, useRedisServer } from '../support/own-redis.js';
import { RedisMonitor } from '../support/redis-monitor.js';
import { uniqueKey } from '../support/unique-key.js';

const server = useRedisServer();
const observer = new LockObserver(server);

/** A lock service that was not opened. */
function newLocks({
  clock = systemClock,
  client = new Redis(server.url),
  ...options
}: LockServiceOptions & { readonly clock?: Clock; readonly client?: Redis } = {}) {
  const resolved = resolveServiceOptions(options);
  const store = new RedisLockStore({
    client,
    clock,
    keyPrefix: 'lock:',
    leaseMs: resolved.leaseMs,
    closeClient: async () => client.disconnect(),
  });
  const engine = new LockEngine({ store, options: resolved, report: () => {}, clock });
  afterTest(() => engine.close(0));
  return { engine, store };
}

describe('processes', () => {
  it('have an id of 128 random bits, each service its own, without host or pid [R34]', () => {
    const ids = Array.from({ length: 50 }, () => newLocks().store.processId);
    expect(new Set(ids).size).toBe(50);
    for (const id of ids) expect(id).toMatch(/^[0-9a-f]{32}$/);
    // Each of the 32 digits varies: none depends on anything constant.
    for (let i = 0; i < 32; i++) expect(new Set(ids.map((id) => id[i])).size).toBeGreaterThan(3);
  });

  it('have an entry in one key, which is written again before it expires [R39]', async () => {
    const HALF_AN_HOUR_MS = 1_800_000;
    const refreshes: (() => void)[] = [];
    const clock: Clock = {
      ...systemClock,
      after: (ms, fire) => {
        if (ms !== HALF_AN_HOUR_MS) return systemClock.after(ms, fire);
        refreshes.push(fire);
        return () => {};
      },
    };
    const { engine, store } = newLocks({ clock });
    await engine.open();
    const key = `lock:process:${store.processId}`;
    const self = JSON.stringify({ host: hostname(), pid: process.pid });
    expect(await server.admin.get(key)).toBe(self);
    expect(await server.admin.pttl(key)).toBeGreaterThan(HALF_AN_HOUR_MS);

    await server.admin.pexpire(key, 60_000);
    expect(refreshes).toHaveLength(1);
    refreshes[0]!();
    await eventually(async () =>
      expect(await server.admin.pttl(key)).toBeGreaterThan(HALF_AN_HOUR_MS),
    );
    expect(refreshes).toHaveLength(2);

    await engine.close(0);
    expect(await server.admin.exists(key)).toBe(0);
  });
});

describe('the inbox', () => {
  it('connects to the master, whatever the role of the client [R3]', async () => {
    const client = new Redis(server.url);
    const asked: unknown[] = [];
    const duplicate = client.duplicate.bind(client);
    client.duplicate = (override) => {
      asked.push(override);
      return duplicate(override);
    };
    const { engine } = newLocks({ client });
    await engine.open();
    const toMaster = expect.objectContaining({ role: 'master', autoResubscribe: false });
    expect(asked).toEqual([toMaster, toMaster]); // for commands, and for the inbox
  });

  it('is subscribed before the first lock is requested, even without a start [R35]', async () => {
    const monitor = await RedisMonitor.start(server.port);
    const { engine, store } = newLocks();
    const key = uniqueKey();
    const locks = await Promise.all([engine.acquire(key), engine.acquire(uniqueKey())]);
    const commands = (await monitor.commands()).filter(({ source }) => source !== 'lua');
    const subscribed = commands.findIndex(({ name }) => name === 'subscribe');
    const asked = commands.findIndex(({ args }) => args.includes(`lock:{${key}}`));
    expect(subscribed).toBeGreaterThanOrEqual(0);
    expect(commands[subscribed]!.args).toEqual([`lock:inbox:${store.processId}`]);
    expect(asked).toBeGreaterThan(subscribed);
    expect(commands.filter(({ name }) => name === 'subscribe')).toHaveLength(1);
    for (const lock of locks) await lock.release();
  });
});

describe('a queue full of dead waiters', () => {
  it('delays the live waiter behind them for no longer than it takes to drop them [R28]', async () => {
    const [a, b] = [newLocks(), newLocks()];
    await Promise.all([a.engine.open(), b.engine.open()]);
    const key = uniqueKey();
    const queue = `lock:{${key}}:queue`;
    const lock = await a.engine.acquire(key);
    const dead = Array.from({ length: 20_000 }, (_, i) => [
      i,
      `${i.toString(16).padStart(32, '0')}:1`,
    ]);
    for (let i = 0; i < dead.length; i += 1_000)
      await server.admin.zadd(queue, ...dead.slice(i, i + 1_000).flat());
    const waiting = b.engine.acquire(key, { waitMs: 20_000 });
    await eventually(async () => expect(await server.admin.zcard(queue)).toBe(dead.length + 1));

    const from = performance.now();
    expect(await lock.release()).toBe(true);
    const next = await waiting;

    expect(performance.now() - from).toBeLessThan(2_500); // half of the time before a waiter polls
    expect(await server.admin.zcard(queue)).toBe(0);
    await next.release();
  });
});

describe('fencing numbers', () => {
  it('are one key for all locks, and all that a lock leaves in Redis [R37]', async () => {
    const own = await startRedisServer();
    const { engine } = newLocks({ client: new Redis(own.url) });
    await engine.open();
    const admin = openAdmin(own.url);
    const keys = Array.from({ length: 100 }, () => uniqueKey());
    const before = await admin.keys('*');

    let highest = 0;
    for (const key of keys) {
      const lock = await engine.acquire(key);
      expect(lock.fencingToken).toBeGreaterThan(highest);
      highest = lock.fencingToken;
      await lock.release();
      await Promise.all([engine.withLock(key, {}, () => {}), engine.withLock(key, {}, () => {})]);
    }

    expect(await admin.keys('*')).toEqual(expect.arrayContaining([...before, 'lock:fence']));
    expect(await admin.dbsize()).toBe(before.length + 1);
    expect(await admin.pttl('lock:fence')).toBe(-1);
  });

  it('stay close to the clock, however many keys are contended', async () => {
    const own = await startRedisServer();
    const processes = Array.from({ length: 4 }, () => newLocks({ client: new Redis(own.url) }));
    await Promise.all(processes.map(({ engine }) => engine.open()));
    const admin = openAdmin(own.url);
    const keys = Array.from({ length: 10 }, () => uniqueKey());
    const until = performance.now() + 2_000;
    const calls = processes.flatMap(({ engine }) =>
      keys.flatMap((key) =>
        Array.from({ length: 3 }, async () => {
          while (performance.now() < until) await engine.withLock(key, {}, () => {});
        }),
      ),
    );
    let furthest = -Infinity;
    while (performance.now() < until) {
      const [stored, [seconds, micros]] = await Promise.all([
        admin.get('lock:fence'),
        admin.time(),
      ]);
      const clock = Number(seconds) * 1_000_000 + Number(micros);
      furthest = Math.max(furthest, Number.parseInt(stored ?? '0', 10) - clock);
      await new Promise(setImmediate);
    }
    await Promise.all(calls);
    expect(furthest).toBeLessThan(20_000);
  });
});

describe('a key that a call releases because it did not get the others', () => {
  /** A lingering lease exists for as long as the test checks. */
  const LONG = { lingerMs: 3_600_000, leaseMs: 3_600_000 };

  it.each(['the wait for another one is over', 'its signal aborts'])(
    'does not linger: %s',
    async (end) => {
      const [one, other] = [newLocks(LONG), newLocks()];
      await Promise.all([one.engine.open(), other.engine.open()]);
      const key = uniqueKey();
      const keys = [`${key}:a`, `${key}:b`] as const;
      await other.engine.acquire(keys[1]);
      const controller = new AbortController();
      const waitMs = end === 'its signal aborts' ? 60_000 : 3_000;
      const call = one.engine.withLock(keys, { waitMs, signal: controller.signal }, () => {});
      const refused = expect(call).rejects.toThrow(LockError);
      await observer.waiting(keys[1], 1);
      expect(await observer.holder(keys[0])).not.toBeNull();
      if (end === 'its signal aborts') controller.abort();
      await refused;
      await eventually(async () => expect(await observer.holder(keys[0])).toBeNull());
    },
  );
});

describe('a key that is kept after short work', () => {
  it.each(['in this process', 'in another process'])(
    'is kept for the whole of holdAtLeastMs, whoever waits %s',
    async (where) => {
      const [a, b] = [newLocks(), newLocks()];
      await Promise.all([a.engine.open(), b.engine.open()]);
      const key = uniqueKey();
      const keptMs = 2_000;
      const waiter = where === 'in this process' ? a : b;
      const from = performance.now();
      const enteredAfter: number[] = [];
      const work = (): void => void enteredAfter.push(performance.now() - from);
      const first = a.engine.withLock(key, { holdAtLeastMs: keptMs }, work);
      await eventually(() => expect(enteredAfter).toHaveLength(1));
      const waiting = waiter.engine.withLock(key, { waitMs: 20_000 }, work);
      await Promise.all([first, waiting]);
      // The time counts from the grant, which came after `from`; Redis counts in whole milliseconds.
      expect(enteredAfter[1]).toBeGreaterThan(keptMs - 2);
    },
  );

  it('is kept for the rest of that time even if Redis was away until the lease had ended', async () => {
    const [leaseMs, keptMs] = [1_000, 8_000];
    const [a, b] = [await openLocks(server.url, { leaseMs }), await openLocks(server.url)];
    const key = uniqueKey();
    const from = performance.now();
    const lock = await a.engine.acquire(key, { holdAtLeastMs: keptMs });
    const holder = await server.admin.get(`lock:{${key}}`);
    server.pause();
    try {
      await expect(lock.release()).rejects.toBeInstanceOf(LockStoreError);
      await sleep(2 * leaseMs);
    } finally {
      server.resume();
    }
    await eventually(async () =>
      expect(await server.admin.get(`lock:{${key}}`)).toBe(`kept:${holder}`),
    );
    const keptFor = await server.admin.pttl(`lock:{${key}}`);
    expect(keptFor + performance.now() - from).toBeGreaterThan(keptMs - 20);
    expect(keptFor).toBeLessThan(keptMs - 2 * leaseMs);
    expect(a.events).toContainEqual(
      expect.objectContaining({ type: 'release-unknown', keepMs: expect.any(Number) }),
    );
    await eventually(() => b.engine.ping());
    await expect(b.engine.tryAcquire(key)).resolves.toBeNull();
  });

  it.each([
    ['its application closes', {}, 300],
    ['it has lasted for maxHoldMs', { maxHoldMs: 300 }, 30_000],
  ])(
    'is kept for holdAtLeastMs if the work ends with its signal because %s',
    async (_, options, closeMs) => {
      const [a, b] = [newLocks(), newLocks()];
      await Promise.all([a.engine.open(), b.engine.open()]);
      const key = uniqueKey();
      const work = async ({ signal }: Lock): Promise<void> => void (await once(signal, 'abort'));
      const call = a.engine.withLock(key, { ...options, holdAtLeastMs: 60_000 }, work);
      await eventually(async () => expect(await server.admin.exists(`lock:{${key}}`)).toBe(1));
      const holder = await server.admin.get(`lock:{${key}}`);
      const closed = a.engine.close(closeMs);
      await Promise.all([call, closed]);
      await eventually(async () =>
        expect(await server.admin.get(`lock:{${key}}`)).toBe(`kept:${holder}`),
      );
      expect(await server.admin.pttl(`lock:{${key}}`)).toBeGreaterThan(50_000);
      await expect(b.engine.tryAcquire(key)).resolves.toBeNull();
    },
  );

  it('is announced to the head of the queue, which enters as soon as the time is over [R41]', async () => {
    const [a, b] = [newLocks(), newLocks()];
    await Promise.all([a.engine.open(), b.engine.open()]);
    const key = uniqueKey();
    const keptMs = 1_500; // the safety interval of a waiter is 5 s
    const lock = await a.engine.acquire(key, { holdAtLeastMs: keptMs });
    const from = performance.now();
    const waiting = b.engine.acquire(key, { waitMs: 20_000 });
    await eventually(async () => expect(await server.admin.zcard(`lock:{${key}}:queue`)).toBe(1));
    const holder = await server.admin.get(`lock:{${key}}`);

    expect(await lock.release()).toBe(true);
    expect(await server.admin.get(`lock:{${key}}`)).toBe(`kept:${holder}`);
    const next = await waiting;
    const ms = performance.now() - from;
    expect(ms).toBeGreaterThan(keptMs - 100);
    expect(ms).toBeLessThan(4_500);
    expect(next.fencingToken).toBeGreaterThan(lock.fencingToken);
    await next.release();
  });
});
