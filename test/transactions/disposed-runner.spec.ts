import { describe, expect, it } from '@jest/globals';
import { LockInTransactionError } from 'nestjs-locked';
import { lockAwareDataSource } from 'nestjs-locked/typeorm';
import { usePostgres } from '../support/databases.js';
import { useRedis } from '../support/shared-redis.js';
import { openDataSource } from './data-source.js';
import { isHeld, startLocks } from './locks.js';
import { useStock } from './stock.js';

const redis = useRedis();
const postgres = usePostgres();
const stock = useStock(postgres);

/** Sells two by hand, the second one in a nested transaction, and leaves both to the disposal of the query runner. */
async function start() {
  const dataSource = lockAwareDataSource(await openDataSource('postgres', postgres.settings, 1));
  const { locks } = await startLocks(redis.url, { fence: true });
  const sent: string[] = [];
  dataSource.subscribers.push({ beforeQuery: ({ query }) => void sent.push(query) });
  const sell = async (isNested: boolean): Promise<void> => {
    const runner = dataSource.createQueryRunner();
    await runner.startTransaction();
    await stock.takeOne(runner);
    if (isNested) await runner.startTransaction();
    await stock.takeOne(runner);
    sent.length = 0;
    await runner[Symbol.asyncDispose](); // as at the end of `await using runner`
  };
  return { locks, sell, sent };
}

describe('a query runner driven manually and disposed of', () => {
  it.each([false, true])('sends only the COMMIT without a lock, nested: %s', async (isNested) => {
    const { sell, sent } = await start();
    await sell(isNested);
    expect(sent).toEqual(['COMMIT']);
    expect(await stock.quantity()).toBe(98);
  });

  it('is committed under a lock', async () => {
    const { locks, sell } = await start();
    await locks.withLock(stock.key, () => sell(false));
    expect([await stock.quantity(), await isHeld(redis.url, stock.key)]).toEqual([98, false]);
  });

  it('is told under a lock that a nested transaction is open, and rolled back', async () => {
    const { locks, sell } = await start();
    const sale = locks.withLock(stock.key, () => sell(true));
    await expect(sale).rejects.toThrow(/a nested transaction \(a savepoint\) is still open in it/);
    await expect(sale).rejects.toBeInstanceOf(LockInTransactionError);
    expect([await stock.quantity(), await isHeld(redis.url, stock.key)]).toEqual([100, false]);
  });
});
