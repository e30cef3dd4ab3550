import { afterAll, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import { type Lock, LockAbortedError, LockNotAcquiredError } from 'nestjs-locked';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterTest } from '../support/after-test.js';
import { eventually } from '../support/eventually.js';
import { useRedisServer } from '../support/own-redis.js';
import type { ForeignAcquire, ForeignHold, ForeignLocks } from './foreign-locks.js';
import { ourLocks } from './our-locks.js';

const NAME = 'stock:42';
const KEY = `lock:{${NAME}}`;
const LEASE_MS = 600;
/** Too long for anybody to enter because it has ended. */
const LONG_MS = 60_000;
/** We poll every 500 ms at the slowest; the rest is for a busy machine. */
const SOON_MS = 5_000;

export interface ForeignLibrary {
  readonly start: (url: string) => ForeignLocks;
  /** Whether its locks can be without an expiry. */
  readonly canBeEndless: boolean;
}

/** The rules between us and any library that takes a lock by setting its key if it does not exist. */
export function foreignLockCases({ start, canBeEndless }: ForeignLibrary): void {
  let foreign: ForeignLocks;

  afterAll(() => foreign?.close());
  const server = useRedisServer();
  beforeAll(() => {
    foreign = start(server.url);
  });

  beforeEach(() => server.admin.flushall());

  const ours = (options: Parameters<typeof ourLocks>[1] = {}) =>
    ourLocks(server.url, { leaseMs: LEASE_MS, ...options });

  const theirTry = (waitMs = 0) => foreign.acquire({ key: KEY, ttlMs: LONG_MS, waitMs });

  async function theirHold(lease: Pick<ForeignAcquire, 'ttlMs'>): Promise<ForeignHold> {
    const hold = await foreign.acquire({ key: KEY, waitMs: 0, ...lease });
    if (hold === undefined) throw new Error('the key is not free');
    return hold;
  }

  /** Their value and its absolute expiry, which we must never change. */
  const state = () => Promise.all([server.admin.get(KEY), server.admin.pexpiretime(KEY)]);

  const waiting = () =>
    eventually(async () => expect(await server.admin.zcard(`${KEY}:queue`)).toBe(1));

  async function timed<T>(answer: Promise<T>): Promise<[T, number]> {
    const from = performance.now();
    const result = await answer;
    return [result, performance.now() - from];
  }

  async function expectHeld(lock: Lock): Promise<void> {
    expect(lock.isHeld).toBe(true);
    await lock.ensureRemaining(LEASE_MS / 2);
    expect(await lock.release()).toBe(true);
  }

  describe('while we hold', () => {
    it('they do not enter, neither at once nor by retrying', async () => {
      const lock = await (await ours({ leaseMs: 30_000 })).acquire(NAME);

      expect(await theirTry()).toBeUndefined();
      expect(await theirTry(1_000)).toBeUndefined();

      await expectHeld(lock);
    });

    it('nor after many renewals', async () => {
      const lock = await (await ours()).acquire(NAME);

      const [hold, waitedMs] = await timed(theirTry(4 * LEASE_MS));

      expect(hold).toBeUndefined();
      expect(waitedMs).toBeGreaterThan(3 * LEASE_MS);
      await expectHeld(lock);
    });

    it('nor while the lock passes from caller to caller and from process to process', async () => {
      const services = [await ours(), await ours()];
      const first = await services[0]!.acquire(NAME);
      let worksDone = 0;
      const works = services.flatMap((locks) =>
        [1, 2, 3].map(() => locks.withLock(NAME, () => sleep(100).then(() => worksDone++))),
      );
      await waiting();
      const theirs = theirTry(SOON_MS).then((hold) => ({ hold, after: worksDone }));

      await first.release();
      await Promise.all(works);

      expect(await theirs).toEqual({ hold: expect.anything(), after: works.length });
    });

    it('nor while the key is kept after a short hold', async () => {
      const locks = await ours();
      const lock = await locks.acquire(NAME, { holdAtLeastMs: 1_000 });
      await lock.release();

      expect(await theirTry(200)).toBeUndefined();
      expect(await theirTry(SOON_MS)).toBeDefined();
    });

    it('they enter as soon as we have released', async () => {
      const lock = await (await ours()).acquire(NAME);
      const theirs = theirTry(SOON_MS);
      await sleep(300);

      await lock.release();

      expect(await theirs).toBeDefined();
    });

    it('nor while several of us read, who are let in together after them', async () => {
      const services = [await ours(), await ours()];
      const read = () =>
        Promise.all(services.map((locks) => locks.acquire(NAME, { mode: 'shared' })));
      const first = await read();

      expect(await theirTry()).toBeUndefined();
      expect(await theirTry(2 * LEASE_MS)).toBeUndefined();
      for (const lock of first) await expectHeld(lock);

      const theirs = await theirHold({ ttlMs: LONG_MS });
      expect(await services[0]!.tryAcquire(NAME, { mode: 'shared' })).toBeNull();
      const next = read();
      await sleep(300);
      expect(await theirs.release()).toBe(true);
      for (const lock of await next) await expectHeld(lock);
    });

    it('they enter after a lingering lease has ended', async () => {
      const locks = await ours({ lingerMs: 300 });
      await locks.withLock(NAME, async () => {});

      expect(await theirTry()).toBeUndefined();
      expect(await theirTry(SOON_MS)).toBeDefined();
    });

    it('their late release and extension do nothing', async () => {
      const theirs = await theirHold({ ttlMs: 200 });
      const lock = await (await ours({ leaseMs: LONG_MS })).acquire(NAME);
      const before = await state();

      expect(await theirs.extend(1_000)).toBe(false);
      expect(await theirs.release()).toBe(false);

      expect(await state()).toEqual(before);
      await expectHeld(lock);
    });
  });

  const leases: (readonly [string, Pick<ForeignAcquire, 'ttlMs'>])[] = [
    ['with a TTL', { ttlMs: LONG_MS }],
  ];
  if (canBeEndless) leases.push(['without a TTL', {}]);

  describe.each(leases)('while they hold %s', (_title, lease) => {
    it('we do not enter, and time out without touching their key', async () => {
      const locks = await ours();
      const theirs = await theirHold(lease);
      const before = await state();
      expect(before[0]).toBe(theirs.value);

      expect(await locks.tryAcquire(NAME)).toBeNull();
      const [error, waitedMs] = await timed(
        locks.acquire(NAME, { waitMs: 1_500 }).catch((reason: unknown) => reason),
      );

      expect(error).toBeInstanceOf(LockNotAcquiredError);
      expect(waitedMs).toBeGreaterThan(1_000); // a timer counts from the previous turn of the loop
      expect(waitedMs).toBeLessThan(1_500 + SOON_MS);
      expect(await state()).toEqual(before);
      expect(await theirs.release()).toBe(true);
    });

    it('we do not enter with several keys at once, and do not keep the others', async () => {
      const locks = await ours();
      const theirs = await theirHold(lease);

      await expect(locks.acquire([NAME, 'stock:1'], { waitMs: 500 })).rejects.toBeInstanceOf(
        LockNotAcquiredError,
      );

      expect(await server.admin.exists('lock:{stock:1}')).toBe(0);
      expect(await theirs.release()).toBe(true);
    });

    it('waiters that give up, and an application that closes, do not touch their key', async () => {
      const theirs = await theirHold(lease);
      const before = await state();
      afterTest(async () => {
        // The application was started later, so it has been closed by now.
        await expect(left).rejects.toBeInstanceOf(LockAbortedError);
        expect(await state()).toEqual(before);
        expect(await theirs.release()).toBe(true);
      });
      const locks = await ours();
      const abort = new AbortController();
      const aborted = locks.acquire(NAME, { signal: abort.signal });
      const left = locks.acquire(NAME);
      left.catch(() => {});
      await waiting();

      abort.abort();

      await expect(aborted).rejects.toBeInstanceOf(LockAbortedError);
      expect(await state()).toEqual(before);
    });

    it('we enter soon after their release, even after a long wait [R19]', async () => {
      const theirs = await theirHold(lease);
      const waiter = (await ours({ waitMs: LONG_MS })).acquire(NAME);
      await sleep(2_000); // the slowest interval has been reached

      expect(await theirs.release()).toBe(true);
      const [lock, waitedMs] = await timed(waiter);

      expect(waitedMs).toBeLessThan(SOON_MS);
      await expectHeld(lock);
    });

    it('all waiters of all our processes enter, one after the other', async () => {
      const theirs = await theirHold(lease);
      const services = await Promise.all([ours(), ours()]);
      let inside = 0;
      let most = 0;
      const work = async (): Promise<void> => {
        most = Math.max(most, ++inside);
        await sleep(5);
        inside -= 1;
      };
      const waiters = services.flatMap((locks) => [1, 2, 3].map(() => locks.withLock(NAME, work)));
      await sleep(500);
      expect(most).toBe(0);

      expect(await theirs.release()).toBe(true);
      const [, waitedMs] = await timed(Promise.all(waiters));

      expect(most).toBe(1);
      expect(waitedMs).toBeLessThan(SOON_MS);
    });

    it('inspect() names no holder, but shows the queue', async () => {
      const locks = await ours();
      const theirs = await theirHold(lease);
      const abort = new AbortController();
      const waiter = locks.acquire(NAME, { signal: abort.signal });
      await waiting();

      const info = await locks.inspect(NAME);

      expect(info).toMatchObject({ key: NAME, holder: undefined, since: undefined, waiters: 1 });
      if (lease.ttlMs === undefined) expect(info?.remainingMs).toBe(Infinity);
      else expect(info?.remainingMs).toBeGreaterThan(LONG_MS / 2);
      abort.abort();
      await expect(waiter).rejects.toBeInstanceOf(LockAbortedError);
      await theirs.release();
    });

    it('forceRelease() removes the key, and their release then does nothing', async () => {
      const locks = await ours();
      const theirs = await theirHold(lease);
      const waiter = locks.acquire(NAME);
      await waiting();

      expect(await locks.forceRelease(NAME)).toBe(true);
      const [lock, waitedMs] = await timed(waiter);

      expect(waitedMs).toBeLessThan(SOON_MS);
      expect(await theirs.release()).toBe(false);
      await expectHeld(lock);
    });

    it('if they get the key after our lease was deleted, they keep it: we learn that it is lost', async () => {
      const locks = await ours();
      const lock = await locks.acquire(NAME);
      const { signal } = lock;
      await server.admin.del(KEY);
      const theirs = await theirHold(lease);
      const before = await state();

      await eventually(() => expect(signal.aborted).toBe(true), SOON_MS);

      expect(signal.reason).toMatchObject({ code: 'LOCK_LOST', reason: 'deleted' });
      expect(await lock.release()).toBe(false);
      expect(await state()).toEqual(before);
      expect(await theirs.release()).toBe(true);
    });
  });

  it('we enter soon after their TTL has ended, not before', async () => {
    const ttlMs = 1_200;
    const locks = await ours();
    await theirHold({ ttlMs });

    const [lock, waitedMs] = await timed(locks.acquire(NAME));

    expect(waitedMs).toBeGreaterThan(ttlMs - 200);
    expect(waitedMs).toBeLessThan(ttlMs + SOON_MS);
    await expectHeld(lock);
  });

  it('we keep waiting when they extend their TTL', async () => {
    const locks = await ours();
    const theirs = await theirHold({ ttlMs: 1_000 });
    const waiter = locks.acquire(NAME);
    await waiting();

    expect(await theirs.extend(2_000)).toBe(true);
    const [lock, waitedMs] = await timed(waiter);

    expect(waitedMs).toBeGreaterThan(1_800);
    expect(waitedMs).toBeLessThan(2_000 + SOON_MS);
    await expectHeld(lock);
  });

  it('a counter that both increase ends exact', async () => {
    const services = await Promise.all([1, 2].map(() => ours({ waitMs: LONG_MS })));
    const race = {
      key: KEY,
      counter: 'counter',
      order: 'order',
      callers: 3,
      times: 15,
      pauseMs: 5,
      restMs: 200,
    };
    const caller = async (locks: (typeof services)[number]): Promise<void> => {
      for (let i = 0; i < race.times; i += 1) {
        await locks.withLock(NAME, async () => {
          const value = Number(await server.admin.get(race.counter));
          await sleep(race.pauseMs);
          await server.admin.set(race.counter, value + 1);
          await server.admin.rpush(race.order, 'ours');
        });
        await sleep(Math.random() * race.restMs);
      }
    };

    await Promise.all([
      foreign.race(race),
      ...services.flatMap((locks) => Array.from({ length: race.callers }, () => caller(locks))),
    ]);

    const total = 3 * race.callers * race.times;
    expect(await server.admin.get(race.counter)).toBe(String(total));
    const order = await server.admin.lrange(race.order, 0, -1);
    expect(order).toHaveLength(total);
    const changes = order.filter((who, i) => i > 0 && who !== order[i - 1]).length;
    expect(changes).toBeGreaterThan(1); // it was a race
    await eventually(async () => expect(await server.admin.exists(KEY, `${KEY}:queue`)).toBe(0));
  });
}
