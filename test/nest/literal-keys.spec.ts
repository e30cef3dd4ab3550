import { describe, expect, it } from '@jest/globals';
import { LockConfigError, Locked, lockKey, LockKeyError, type LockService } from 'nestjs-locked';
import { TestLocks, withTestLocks } from 'nestjs-locked/testing';

const WORK = async (): Promise<void> => {};

describe('a key that was not filled in', () => {
  const testLocks = new TestLocks();
  const locks = testLocks.service();

  it.each<[string, (key: string, service: LockService) => unknown]>([
    ['withLock', (key) => locks.withLock(key, WORK)],
    ['withLock with options', (key) => locks.withLock(key, { onBusy: 'skip' }, WORK)],
    ['withLock with several keys', (key) => locks.withLock(['a', key], WORK)],
    ['acquire', (key) => locks.acquire(key)],
    ['tryAcquire', (key) => locks.tryAcquire(['a', key])],
    ['current', (key) => locks.current(key)],
    ['assertHeld', (key) => locks.assertHeld(key)],
    ['inspect', (key) => locks.inspect(key)],
    ['forceRelease', (key) => locks.forceRelease(key)],
    ['fencingTokenOf', (key) => locks.withLock('a', (lock) => lock.fencingTokenOf(key))],
    ['hold of TestLocks', async (key) => Promise.resolve(testLocks.hold(key))],
    ['lose of TestLocks', (key) => testLocks.lose(key)],
    ['untilHeld of TestLocks', (key) => testLocks.untilHeld(key)],
    ['untilWaiting of TestLocks', (key) => testLocks.untilWaiting(key)],
  ])('is refused by %s', async (_, use) => {
    for (const key of ['stock:<id>', 'stock:${id}', 'stock:{id}']) {
      const refused = (async () => use(key, locks))();
      await expect(refused).rejects.toThrow(LockKeyError);
      await expect(refused).rejects.toThrow(
        "write lockKey`stock:${id}`, or locks.keyFor('stock:<id>', { id })",
      );
    }
  });

  it('is refused as the result of a key function', async () => {
    class Stock {
      @Locked(() => 'stock:<id>')
      async take(id: string) {
        return Promise.resolve(id);
      }
    }
    await expect(withTestLocks(new Stock(), testLocks).take('42')).rejects.toThrow(
      "with the key function of Stock.take: Cannot use 'stock:<id>' as a lock key: '<id>' is not filled in",
    );
  });
});

it('locks.keyFor() refuses a value that the template names without brackets', () => {
  const locks = new TestLocks().service();
  const build = (): string => locks.keyFor('stock:#id', { id: 42 });
  expect(build).toThrow(LockConfigError);
  expect(build).toThrow(
    "'#id' is not filled in, so that all calls would share one lock; write 'stock:<id>'",
  );
  expect(locks.keyFor('stock:#id', { sku: 42 })).toBe('stock:#id');
});

describe('a value that looks like a placeholder', () => {
  class Posts {
    @Locked('post:<title>')
    async publish(title: string) {
      return Promise.resolve(title);
    }
  }

  it.each(['<b>', '${id}', '{id}', '/:id', '[object Object]', 'a -> b', '<'])(
    'is one key everywhere: %s',
    async (title) => {
      const testLocks = new TestLocks({ waitMs: 0 });
      const locks = testLocks.service();
      const key = lockKey`post:${title}`;
      expect(locks.keyFor('post:<title>', { title })).toBe(key);
      await withTestLocks(new Posts(), testLocks).publish(title);
      await locks.withLock([key, 'other'], async (lock) => {
        expect(lock.keys).toContain(key);
        expect(lock.fencingTokenOf(key)).toBeGreaterThan(0);
        expect(await locks.inspect(key)).toMatchObject({ key });
        expect(await locks.tryAcquire(key, { reentrant: false })).toBeNull();
      });
      expect(testLocks.calls[0]).toMatchObject({ by: 'Posts.publish', keys: [key] });
    },
  );
});
