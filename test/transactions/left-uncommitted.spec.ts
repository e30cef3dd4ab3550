import { describe, expect, it } from '@jest/globals';
import { LockInTransactionError } from 'nestjs-locked';
import { lockAware } from 'nestjs-locked/typeorm';
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
  const dataSource = lockAware(await openDataSource('postgres', postgres.settings, 1));
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

/** Commits once, and has started twice. */
async function sellHalf(runner: QueryRunner): Promise<void> {
  await runner.startTransaction();
  await stock.takeOne(runner.manager);
  await runner.startTransaction();
  await stock.takeOne(runner.manager);
  await runner.commitTransaction();
}

class Planned extends Error {}

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
