import { beforeEach, describe, expect, it } from '@jest/globals';
import { type LockService, LockStoreError } from 'nestjs-locked';
import { afterTest } from '../support/after-test.js';
import { useRedisServer } from '../support/own-redis.js';
import { ourLocks } from './our-locks.js';

const NAME = 'stock:42';
const KEY = `lock:{${NAME}}`;
/** As Redisson writes it: thread of a client → how often it has entered. */
const FIELD = 'c7a1f4e2-5d3b-4a96-8a3f-1f6f6d1b2c3d:1';

const server = useRedisServer();

describe("a hash at the key, as Redisson's RLock writes it", () => {
  let locks: LockService;

  beforeEach(async () => {
    await server.admin.flushall();
    locks = await ourLocks(server.url, { leaseMs: 600 });
    await server.admin.hset(KEY, FIELD, 1);
    await server.admin.pexpire(KEY, 30_000);
    const end = await server.admin.pexpiretime(KEY);
    afterTest(async () => {
      expect(await server.admin.hgetall(KEY)).toEqual({ [FIELD]: '1' });
      expect(await server.admin.pexpiretime(KEY)).toBe(end);
    });
  });

  const calls: [string, () => Promise<unknown>][] = [
    ['acquire()', () => locks.acquire(NAME, { waitMs: 500 })],
    ['acquire() of several keys', () => locks.acquire([NAME, 'stock:43'], { waitMs: 500 })],
    ['tryAcquire()', () => locks.tryAcquire(NAME)],
    ['withLock()', () => locks.withLock(NAME, { waitMs: 500, onBusy: 'skip' }, () => 'ran')],
    ['forceRelease()', () => locks.forceRelease(NAME)],
  ];

  it.each(calls)(
    '%s fails with an error that says so, and does not change the hash [G40]',
    async (_, call) => {
      const error = await call().then(
        (result) => result,
        (reason: unknown) => reason,
      );

      expect(error).toBeInstanceOf(LockStoreError);
      expect(String(error)).toContain(`'${NAME}'`);
      expect(String(error)).toContain('WRONGTYPE');
    },
  );

  // A failure that waiting cannot change is not retried.
  it('acquire() fails at once, not after the whole wait [R19]', async () => {
    const abort = new AbortController();
    const late = setTimeout(() => abort.abort(), 3_000);
    try {
      const { signal } = abort;
      await expect(locks.acquire(NAME, { waitMs: Infinity, signal })).rejects.toBeInstanceOf(
        LockStoreError,
      );
    } finally {
      clearTimeout(late);
    }
  });

  it('inspect() shows a foreign holder', async () => {
    expect(await locks.inspect(NAME)).toMatchObject({ key: NAME, holder: undefined, waiters: 0 });
  });

  it('list() returns no lock of another client that has a name which ours cannot have', async () => {
    await server.admin.set('lock:{a<b}', 'foreign', 'PX', 30_000);
    const keys: string[] = [];
    for await (const { key } of locks.list()) keys.push(key);
    expect(keys).toEqual([NAME]);
  });

  it('list() still returns the others', async () => {
    const lock = await locks.acquire('stock:43');
    afterTest(() => lock.release());
    const keys: string[] = [];
    for await (const { key } of locks.list()) keys.push(key);
    expect(keys).toContain('stock:43');
  });
});
