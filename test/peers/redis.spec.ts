/** Defects seen in other lock libraries, looked for here on a real server. */
import { describe, expect, it } from '@jest/globals';
import type { Redis } from 'ioredis';
import { setTimeout as sleep } from 'node:timers/promises';
import { eventually } from '../support/eventually.js';
import { openAdmin, openLocks } from '../support/open-locks.js';
import { startRedisServer, useRedisServer } from '../support/own-redis.js';
import { RedisMonitor } from '../support/redis-monitor.js';
import { uniqueKey } from '../support/unique-key.js';

/** Bound on what takes milliseconds when the machine is idle. */
const SOON_MS = 4_000;

const server = useRedisServer();

function waiters(redis: Redis, key: string, count: number): Promise<void> {
  return eventually(async () => expect(await redis.zcard(`lock:{${key}}:queue`)).toBe(count));
}

describe('whose lock it is', () => {
  it('a waiter that times out does not free the lock of its holder [D101]', async () => {
    const [a, b, c] = await Promise.all([1, 2, 3].map(() => openLocks(server.url)));
    const key = uniqueKey();
    const lock = await a!.engine.acquire(key);
    await expect(b!.engine.acquire(key, { waitMs: 100 })).rejects.toMatchObject({
      code: 'LOCK_NOT_ACQUIRED',
    });
    await expect(c!.engine.acquire(key, { waitMs: 0 })).rejects.toMatchObject({
      code: 'LOCK_NOT_ACQUIRED',
    });
    lock.assertHeld();
    expect(await lock.release()).toBe(true);
  });

  it("release of an expired lock does not delete the successor's key [D128]", async () => {
    const [a, b] = await Promise.all([1, 2].map(() => openLocks(server.url)));
    const redis = openAdmin(server.url);
    const key = uniqueKey();
    const lock = await a!.engine.acquire(key, { renew: false, leaseMs: 500 });
    const next = await b!.engine.acquire(key);
    const token = await redis.get(`lock:{${key}}`);
    expect(lock.isHeld).toBe(false);
    expect(await lock.release()).toBe(false);
    // Its release has been answered.
    await eventually(() => expect(a!.engine.residue).toMatchObject({ tokens: 0 }));
    expect(await redis.get(`lock:{${key}}`)).toBe(token);
    expect(await next.release()).toBe(true);
  });

  it('release of a lock that no longer exists is answered at once, and sent once [D129]', async () => {
    const { engine } = await openLocks(server.url);
    const redis = openAdmin(server.url);
    const key = uniqueKey();
    const lock = await engine.acquire(key);
    await redis.del(`lock:{${key}}`);
    const monitor = await RedisMonitor.start(server.port);
    const from = performance.now();
    expect(await lock.release()).toBe(false);
    expect(performance.now() - from).toBeLessThan(SOON_MS);
    await sleep(500);
    const about = (await monitor.commands()).filter(
      ({ source, args }) => source !== 'lua' && args.includes(`lock:{${key}}`),
    );
    expect(about).toHaveLength(1);
  });
});

describe('the work', () => {
  it('a failed release hides neither its result nor its error [D127]', async () => {
    const own = await startRedisServer();
    const { engine, events } = await openLocks(own.url, { leaseMs: 3_000 });
    const failure = new Error('out of stock');
    let holding = 0;
    const outcomes = await Promise.allSettled([
      engine.withLock(uniqueKey(), {}, async () => {
        await eventually(() => expect(holding).toBe(1));
        own.pause();
        return 'sold';
      }),
      engine.withLock(uniqueKey(), {}, async () => {
        holding++;
        await sleep(100);
        throw failure;
      }),
    ]);
    own.resume();
    expect(outcomes).toEqual([
      { status: 'fulfilled', value: 'sold' },
      { status: 'rejected', reason: failure },
    ]);
    expect(events.map(({ type }) => type)).toContain('release-unknown');
  });
  it('leaves no key behind, whether it succeeds or fails [D130]', async () => {
    const { engine } = await openLocks(server.url);
    const redis = openAdmin(server.url);
    const key = uniqueKey();
    await engine.withLock(key, {}, () => 'sold');
    expect(await redis.exists(`lock:{${key}}`)).toBe(0);
    const failing = engine.withLock(key, {}, () => Promise.reject(new Error('no')));
    await expect(failing).rejects.toThrow('no');
    expect(await redis.exists(`lock:{${key}}`)).toBe(0);
  });

  it('may take longer than the lease [D110]', async () => {
    const [a, b] = await Promise.all([1, 2].map(() => openLocks(server.url, { leaseMs: 500 })));
    const key = uniqueKey();
    await a!.engine.withLock(key, {}, async (lock) => {
      await sleep(1_500);
      lock.assertHeld();
      await expect(b!.engine.acquire(key, { waitMs: 0 })).rejects.toMatchObject({
        code: 'LOCK_NOT_ACQUIRED',
      });
    });
  });
});

describe('waking up', () => {
  it('a waiter that gives up does not keep messages from the others of its process [D102]', async () => {
    const [a, b] = await Promise.all([1, 2].map(() => openLocks(server.url)));
    const redis = openAdmin(server.url);
    const [key, other] = [uniqueKey(), uniqueKey()];
    const locks = await Promise.all([a!.engine.acquire(key), a!.engine.acquire(other)]);
    const impatient = b!.engine.acquire(key, { waitMs: 150 });
    const patient = [b!.engine.acquire(key), b!.engine.acquire(other)];
    await expect(impatient).rejects.toMatchObject({ code: 'LOCK_NOT_ACQUIRED' });
    await Promise.all([waiters(redis, key, 1), waiters(redis, other, 1)]);
    const from = performance.now();
    for (const lock of locks) await lock.release();
    for (const lock of await Promise.all(patient)) await lock.release();
    expect(performance.now() - from).toBeLessThan(SOON_MS); // less than the safety interval of 5 s
  });
});

describe('names', () => {
  it.each([
    `it's "50%" of \\ $1 %s %.0f`,
    'a  b   c',
    '[x]*? ^.+',
    '漢字 \u{1F600} é',
    'g w h 1 2 3',
    '-1',
  ])('%j is a name like any other, even while others wait for it [R33, D139]', async (name) => {
    const [a, b] = await Promise.all([1, 2].map(() => openLocks(server.url)));
    const redis = openAdmin(server.url);
    const lock = await a!.engine.acquire(name);
    const waiting = b!.engine.acquire(name);
    await waiters(redis, name, 1);
    expect(await a!.engine.inspect(name)).toMatchObject({ key: name, waiters: 1 });
    const from = performance.now();
    expect(await lock.release()).toBe(true);
    const next = await waiting;
    expect(performance.now() - from).toBeLessThan(SOON_MS);
    expect(next.fencingToken).toBeGreaterThan(lock.fencingToken);
    expect(await next.release()).toBe(true);
  });
});
