import { describe, expect, it } from '@jest/globals';
import { LockLostError } from 'nestjs-locked';
import { lockAwareDataSource } from 'nestjs-locked/typeorm';
import { usePostgres } from '../support/databases.js';
import { eventually } from '../support/eventually.js';
import { useRedis } from '../support/shared-redis.js';
import { openDataSource } from './data-source.js';
import { isHeld, startLocks } from './locks.js';
import { useStock } from './stock.js';

const redis = useRedis();
const postgres = usePostgres();
const stock = useStock(postgres);

/** A query runner on whose first nested commit the hook after it throws. */
async function start() {
  const dataSource = lockAwareDataSource(await openDataSource('postgres', postgres.settings, 1));
  const { locks } = await startLocks(redis.url, { fence: true });
  let calls = 0;
  dataSource.subscribers.push({
    afterTransactionCommit: () => {
      if (calls++ === 0) throw new Error('no mail server');
    },
  });
  const runner = dataSource.createQueryRunner();
  const sellTwo = async (): Promise<void> => {
    await runner.startTransaction();
    await stock.takeOne(runner);
    await runner.startTransaction();
    await stock.takeOne(runner);
    await expect(runner.commitTransaction()).rejects.toThrow('no mail server');
    await runner.commitTransaction();
  };
  return { runner, locks, sellTwo };
}

describe('a nested transaction by hand whose commit is done, but not its hook', () => {
  it.each(['under a lock', 'without one'])('is over: its transaction commits %s', async (where) => {
    const { runner, locks, sellTwo } = await start();
    await (where === 'under a lock' ? locks.withLock(stock.key, sellTwo) : sellTwo());
    await runner.release();
    expect([await isHeld(redis.url, stock.key), await stock.quantity()]).toEqual([false, 98]);
  });

  it('leaves the next transaction on its runner guarded', async () => {
    const { runner, locks, sellTwo } = await start();
    await sellTwo();
    const sale = locks.withLock(stock.key, async (lock) => {
      await runner.startTransaction();
      await stock.takeOne(runner);
      await locks.forceRelease(stock.key);
      await eventually(() => expect(lock.isHeld).toBe(false));
      await runner.commitTransaction();
    });
    await expect(sale).rejects.toBeInstanceOf(LockLostError);
    await runner.release();
    expect(await stock.quantity()).toBe(98);
  });
});

it('several nested transactions by hand may follow each other under a lock', async () => {
  const dataSource = lockAwareDataSource(await openDataSource('postgres', postgres.settings, 1));
  const { locks } = await startLocks(redis.url, { fence: true });
  const runner = dataSource.createQueryRunner();
  await locks.withLock(stock.key, async () => {
    await runner.startTransaction();
    for (let i = 0; i < 2; i++) {
      await runner.startTransaction();
      await stock.takeOne(runner);
      await runner.commitTransaction();
    }
    await runner.commitTransaction();
  });
  await runner.release();
  expect(await stock.quantity()).toBe(98);
});
