/** `detach` and `adopt` between the lock services of several processes that share a Redis. */
import { describe, expect, it } from '@jest/globals';
import { setTimeout as sleep } from 'node:timers/promises';
import { LockNotAdoptedError } from '../../libs/nestjs-locked/src/core/lock.errors.js';
import { eventually } from '../support/eventually.js';
import { openAdmin, openLocks } from '../support/open-locks.js';
import { useRedis } from '../support/shared-redis.js';
import { uniqueKey } from '../support/unique-key.js';

const redis = useRedis();
const FOR_MS = 20_000;

/** What takes milliseconds, on a busy machine. */
const SOON_MS = 3_000;

describe('a lock that was handed over', () => {
  it('is adopted with a greater number, and its old process is not told of anything', async () => {
    const [a, b] = [await openLocks(redis.url), await openLocks(redis.url)];
    const key = uniqueKey();
    const lock = await a.engine.acquire(key, { label: 'request' });
    const { signal } = lock;
    const text = await lock.detach({ forMs: FOR_MS });
    const adopted = await b.engine.adopt(text);
    expect(adopted.fencingToken).toBeGreaterThan(lock.fencingToken);
    expect(adopted.remainingMs()).toBeGreaterThan(FOR_MS);
    const seen = await a.engine.inspect(key);
    expect(seen).toMatchObject({
      state: 'held',
      holder: { processId: b.store.processId, label: 'request' },
      fencingToken: adopted.fencingToken,
    });
    expect(await a.engine.tryAcquire(key)).toBeNull();
    expect(await lock.release()).toBe(true);
    expect(adopted.isHeld).toBe(true);
    expect(await adopted.release()).toBe(true);
    expect(await a.engine.inspect(key)).toBeNull();
    expect(signal.aborted).toBe(false);
    expect([...a.events, ...b.events]).toEqual([]);
  });

  it('outlives the service that has detached it, is shown with its label, and ends after its time', async () => {
    const [a, b] = [await openLocks(redis.url), await openLocks(redis.url)];
    const key = uniqueKey();
    const text = await a.engine.withLock(key, { label: 'request' }, (lock) =>
      lock.detach({ forMs: FOR_MS }),
    );
    await a.engine.close(1_000);
    expect(await b.engine.inspect(key)).toMatchObject({ holder: { label: 'request' } });
    expect(await b.engine.tryAcquire(key)).toBeNull();
    await openAdmin(redis.url).pexpire(`lock:{${key}}`, 1); // its time is over
    await sleep(10);
    await expect(b.engine.adopt(text)).rejects.toThrow(LockNotAdoptedError);
    expect((await b.engine.tryAcquire(key))?.isHeld).toBe(true);
  });

  it('is not adopted while its token is in the queue, from where it could be granted once more', async () => {
    const { engine } = await openLocks(redis.url);
    const [key, admin] = [uniqueKey(), openAdmin(redis.url)];
    const lock = await engine.acquire(key);
    const text = await lock.detach({ forMs: FOR_MS });
    const token = (await admin.get(`lock:{${key}}`)) as string;
    await admin.zadd(`lock:{${key}}:queue`, 1, token); // a server that refuses ZREM leaves it there
    await expect(engine.adopt(text)).rejects.toThrow(LockNotAdoptedError);
    await admin.zrem(`lock:{${key}}:queue`, token);
    expect(await (await engine.adopt(text)).release()).toBe(true);
  });

  it('is adopted by exactly one of many, and not after its release', async () => {
    const services = await Promise.all([1, 2, 3, 4].map(() => openLocks(redis.url)));
    const key = uniqueKey();
    const lock = await services[0]!.engine.acquire([key, `${key}-2`, `${key}-3`]);
    const text = await lock.detach({ forMs: FOR_MS });
    const tries = await Promise.allSettled(
      services.flatMap(({ engine }) => [engine.adopt(text), engine.adopt(text)]),
    );
    const adopted = tries.flatMap((it) => (it.status === 'fulfilled' ? it.value : []));
    expect(adopted).toHaveLength(1);
    for (const it of tries) {
      if (it.status === 'rejected') expect(it.reason).toBeInstanceOf(LockNotAdoptedError);
    }
    expect(adopted[0]!.keys).toEqual(lock.keys);
    expect(adopted[0]!.isHeld).toBe(true);
    await adopted[0]!.release();
    for (const { engine } of services)
      await expect(engine.adopt(text)).rejects.toThrow(LockNotAdoptedError);
  });

  it.each([
    ['before it is detached', true],
    ['while nobody has it', false],
  ])('goes at once to a waiter that came %s, when the adopter releases it', async (_, isEarly) => {
    const services = await Promise.all([1, 2, 3].map(() => openLocks(redis.url)));
    const [a, b, c] = services as [
      (typeof services)[0],
      (typeof services)[0],
      (typeof services)[0],
    ];
    const key = uniqueKey();
    const admin = openAdmin(redis.url);
    const queueUp = async () => {
      const waiting = c.engine.acquire(key, { waitMs: 30_000 });
      await eventually(async () => expect(await admin.zcard(`lock:{${key}}:queue`)).toBe(1));
      return waiting;
    };
    const lock = await a.engine.acquire(key);
    const early = isEarly ? queueUp() : undefined;
    await eventually(async () =>
      expect(await admin.zcard(`lock:{${key}}:queue`)).toBe(isEarly ? 1 : 0),
    );
    const text = await lock.detach({ forMs: FOR_MS });
    const waiting = early ?? queueUp();
    await eventually(async () => expect(await admin.zcard(`lock:{${key}}:queue`)).toBe(1));
    const adopted = await b.engine.adopt(text);
    // A call of the adopting process does not go first.
    const local = b.engine.acquire(key, { waitMs: 30_000 });
    await eventually(async () => expect(await admin.zcard(`lock:{${key}}:queue`)).toBe(2));
    const released = performance.now();
    await adopted.release();
    const next = await waiting;
    expect(performance.now() - released).toBeLessThan(SOON_MS);
    expect(next.fencingToken).toBeGreaterThan(adopted.fencingToken);
    await next.release();
    expect((await local).isHeld).toBe(true);
  });

  it('is adopted by the process that has detached it, and may go on from hand to hand', async () => {
    const { engine } = await openLocks(redis.url);
    const key = uniqueKey();
    let lock = await engine.acquire(key);
    for (let i = 0; i < 5; i++) {
      const before = lock.fencingToken;
      lock = await engine.adopt(await lock.detach({ forMs: FOR_MS }));
      expect(lock.fencingToken).toBeGreaterThan(before);
    }
    expect(await engine.inspect(key)).toMatchObject({ fencingToken: lock.fencingToken });
    await lock.release();
    expect(await engine.inspect(key)).toBeNull();
  });

  it.each([
    ['before', 'LOCK_NOT_ADOPTED'],
    ['after', 'LOCK_LOST'],
  ])('is taken away by forceRelease %s it is adopted', async (when, code) => {
    const [a, b] = [await openLocks(redis.url), await openLocks(redis.url)];
    const key = uniqueKey();
    const lock = await a.engine.acquire(key);
    const text = await lock.detach({ forMs: FOR_MS });
    if (when === 'before') {
      expect(await b.engine.forceRelease(key)).toBe(true);
      await expect(b.engine.adopt(text)).rejects.toMatchObject({ code });
    } else {
      const { signal } = await b.engine.adopt(text);
      expect(await a.engine.forceRelease(key)).toBe(true);
      await eventually(() => expect(signal.reason).toMatchObject({ code, reason: 'revoked' }));
    }
    const next = await a.engine.acquire(key, { waitMs: 10_000 });
    expect(next.isHeld).toBe(true);
  });

  it.each(['main', 'worker'] as const)(
    'is renewed by nobody until it is adopted, with renewFrom: %j',
    async (renewFrom) => {
      const { engine } = await openLocks(redis.url, { leaseMs: 600, renewFrom });
      const key = uniqueKey();
      const lock = await engine.acquire(key);
      await sleep(700); // it has been renewed
      const since = performance.now();
      await lock.detach({ forMs: 1_000 });
      const next = await (await openLocks(redis.url)).engine.acquire(key, { waitMs: 20_000 });
      expect(performance.now() - since).toBeGreaterThan(990);
      expect(performance.now() - since).toBeLessThan(1_000 + SOON_MS);
      await next.release();
    },
  );

  it('is renewed like any other, and its own options count', async () => {
    const [a, b] = [await openLocks(redis.url), await openLocks(redis.url)];
    const key = uniqueKey();
    const lock = await a.engine.acquire(key);
    const adopted = await b.engine.adopt(await lock.detach({ forMs: FOR_MS }), {
      leaseMs: 900,
      maxHoldMs: 2_500,
      label: 'job',
    });
    expect(adopted.remainingMs()).toBeLessThan(900);
    await sleep(1_500);
    expect(adopted.isHeld).toBe(true);
    await eventually(() => expect(adopted.signal.aborted).toBe(true));
    expect(adopted.signal.reason).toMatchObject({ reason: 'max-hold' });
    await adopted.release();
  });
});
