import { describe, expect, it } from '@jest/globals';
import { LockInTransactionError } from 'nestjs-locked';
import { lockAwareDataSource } from 'nestjs-locked/typeorm';
import type { QueryRunner } from 'typeorm';
import { usePostgres } from '../support/databases.js';
import { useRedis } from '../support/shared-redis.js';
import { openDataSource } from './data-source.js';
import { isHeld, startLocks } from './locks.js';
import { useStock } from './stock.js';

const redis = useRedis();
const postgres = usePostgres();
const stock = useStock(postgres);

async function start() {
  const dataSource = lockAwareDataSource(await openDataSource('postgres', postgres.settings, 1));
  const { locks } = await startLocks(redis.url, { fence: true });
  /** Releases its query runner, whatever happens. */
  const onRunner = async <T>(work: (runner: QueryRunner) => Promise<T>): Promise<T> => {
    const runner = dataSource.createQueryRunner();
    try {
      return await work(runner);
    } finally {
      await runner.release();
    }
  };
  return { locks, onRunner };
}

async function sell(runner: QueryRunner): Promise<void> {
  await runner.startTransaction();
  await stock.takeOne(runner.manager);
  await runner.commitTransaction();
}

/** Commits once, and has started twice. */
async function sellHalf(runner: QueryRunner): Promise<void> {
  await runner.startTransaction();
  await stock.takeOne(runner.manager);
  await runner.startTransaction();
  await stock.takeOne(runner.manager);
  await runner.commitTransaction();
}

class Planned extends Error {}

const swallowed = (work: Promise<unknown>): Promise<void> =>
  work.then(
    () => {},
    () => {},
  );

describe('a transaction by hand that is released when only a nested one was committed', () => {
  it('makes its call fail at its end, and nothing is written', async () => {
    const { locks, onRunner } = await start();
    const sale = locks.withLock(stock.key, () => onRunner(sellHalf));
    await expect(sale).rejects.toBeInstanceOf(LockInTransactionError);
    await expect(sale).rejects.toThrow(/^Nothing was written .* commit as often as you start/);
    expect([await stock.quantity(), await isHeld(redis.url, stock.key)]).toEqual([100, false]);
  });

  it('makes lock.run() fail once if the lock was acquired', async () => {
    const { locks, onRunner } = await start();
    const lock = await locks.acquire(stock.key);
    const sale = lock.run(() => onRunner(sellHalf));
    await expect(sale).rejects.toBeInstanceOf(LockInTransactionError);
    await expect(lock.run(() => 'done')).resolves.toBe('done');
    await lock.release();
  });

  it.each<[string, (runner: QueryRunner) => Promise<unknown>]>([
    ['a statement that fails', (runner) => swallowed(runner.query('SELECT * FROM no_such_table'))],
    [
      'a nested one with a callback',
      (runner) => runner.manager.transaction((nested) => stock.takeOne(nested)),
    ],
  ])('is told also if what came behind it was %s', async (_, last) => {
    const { locks, onRunner } = await start();
    const sale = locks.withLock(stock.key, () =>
      onRunner((runner) => sellHalf(runner).then(() => last(runner))),
    );
    await expect(sale).rejects.toThrow(/^Nothing was written/);
    expect(await stock.quantity()).toBe(100);
  });

  it('is told by one call, and not once more by the call around it', async () => {
    const { locks, onRunner } = await start();
    await locks.withLock('around', async () => {
      const first = locks.withLock(stock.key, () => onRunner(sellHalf));
      await expect(first).rejects.toThrow(/^Nothing was written/);
      await locks.withLock(stock.key, () => onRunner(sell));
    });
    expect(await stock.quantity()).toBe(99);
  });

  it('is not told by a call whose inner call has failed because of something else', async () => {
    const { locks, onRunner } = await start();
    await locks.withLock('around', async () => {
      const first = locks.withLock(stock.key, () =>
        onRunner(async (runner) => {
          await sellHalf(runner);
          throw new Planned();
        }),
      );
      await expect(first).rejects.toBeInstanceOf(Planned);
    });
  });

  it('is not told if its code has tried once more, and that was committed', async () => {
    const { locks, onRunner } = await start();
    await locks.withLock(stock.key, async () => {
      await onRunner(sellHalf);
      await onRunner(sell);
    });
    expect(await stock.quantity()).toBe(99);
  });

  it('is told of one transaction, although another one was told before', async () => {
    const { locks, onRunner } = await start();
    const sale = locks.withLock('around', async () => {
      await swallowed(locks.withLock(stock.key, () => onRunner(sellHalf)));
      await onRunner(sellHalf);
    });
    await expect(sale).rejects.toThrow(/^Nothing was written/);
  });

  it('is not told by the next lock.run() if the first one has failed', async () => {
    const { locks, onRunner } = await start();
    const lock = await locks.acquire(stock.key);
    const first = lock.run(() =>
      onRunner(async (runner) => {
        await sellHalf(runner);
        throw new Planned();
      }),
    );
    await expect(first).rejects.toBeInstanceOf(Planned);
    await expect(lock.run(() => 'done')).resolves.toBe('done');
    await lock.release();
  });

  it('does not hide the error of the body', async () => {
    const { locks, onRunner } = await start();
    const sale = locks.withLock(stock.key, () =>
      onRunner(async (runner) => {
        await sellHalf(runner);
        throw new Planned();
      }),
    );
    await expect(sale).rejects.toBeInstanceOf(Planned);
    expect(await stock.quantity()).toBe(100);
  });

  it.each<[string, (runner: QueryRunner) => Promise<unknown>]>([
    ['it was rolled back', (runner) => sellHalf(runner).then(() => runner.rollbackTransaction())],
    ['it was committed, too', (runner) => sellHalf(runner).then(() => runner.commitTransaction())],
    [
      'the nested one had a callback',
      async (runner) => {
        await runner.startTransaction();
        await runner.manager.transaction((nested) => stock.takeOne(nested));
      },
    ],
    [
      'a transaction with a callback was committed before it',
      async (runner) => {
        await runner.manager.transaction((manager) => stock.takeOne(manager));
        await runner.startTransaction();
      },
    ],
    [
      'a nested one was rolled back after it',
      async (runner) => {
        await sellHalf(runner);
        await runner.startTransaction();
        await runner.rollbackTransaction();
      },
    ],
  ])('is told of only if nobody knows it: %s', async (_, work) => {
    const { locks, onRunner } = await start();
    await locks.withLock(stock.key, () => onRunner(work));
    expect(await isHeld(redis.url, stock.key)).toBe(false);
  });

  it('is rolled back without a word without a lock, as TypeORM leaves it', async () => {
    const { onRunner } = await start();
    await onRunner(sellHalf);
    expect(await stock.quantity()).toBe(100);
  });
});
