import { describe, expect, it } from '@jest/globals';
import { LockLostError } from 'nestjs-locked';
import { lockAware } from 'nestjs-locked/typeorm';
import type { DataSource, EntityManager, EntitySubscriberInterface } from 'typeorm';
import { useMariaDb, usePostgres } from '../support/databases.js';
import { describeWithMariaDb } from '../support/describe-if.js';
import { eventually } from '../support/eventually.js';
import { useRedis } from '../support/shared-redis.js';
import { openDataSource } from './data-source.js';
import { startLocks } from './locks.js';
import { useStock } from './stock.js';

const redis = useRedis();

function lockLostInTheHook(type: 'postgres' | 'mysql', use: typeof usePostgres): void {
  const database = use();
  const stock = useStock(database, type);

  /** Its lock is lost while its commit hook runs. */
  const open = async (): Promise<{
    dataSource: DataSource;
    locks: Awaited<ReturnType<typeof startLocks>>['locks'];
    hooks: () => number;
  }> => {
    const dataSource = lockAware(await openDataSource(type, database.settings));
    const { locks } = await startLocks(redis.url);
    let hooks = 0;
    const subscriber: EntitySubscriberInterface = {
      async beforeTransactionCommit({ queryRunner }) {
        if ((queryRunner as { transactionDepth?: number }).transactionDepth !== 1) return;
        hooks++;
        const lock = locks.current(stock.key);
        await locks.forceRelease(stock.key);
        await eventually(async () => expect(lock?.isHeld).toBe(false));
      },
    };
    dataSource.subscribers.push(subscriber);
    return { dataSource, locks, hooks: () => hooks };
  };

  const takeOne = (manager: EntityManager): Promise<void> => stock.takeOne(manager);
  const ways: [string, (dataSource: DataSource) => Promise<unknown>][] = [
    ['a transaction with a callback', (dataSource) => dataSource.transaction(takeOne)],
    [
      'a transaction with one nested in it',
      (dataSource) => dataSource.transaction((manager) => manager.transaction(takeOne)),
    ],
    [
      'a query runner that is driven by hand',
      async (dataSource) => {
        const runner = dataSource.createQueryRunner();
        try {
          await runner.startTransaction();
          await takeOne(runner.manager);
          await runner.commitTransaction();
        } catch (error) {
          await runner.rollbackTransaction();
          throw error;
        } finally {
          await runner.release();
        }
      },
    ],
  ];

  it.each(ways)('sends no COMMIT for %s', async (_, sell) => {
    const { dataSource, locks, hooks } = await open();
    const sale = locks.withLock(stock.key, () => sell(dataSource));
    await expect(sale).rejects.toBeInstanceOf(LockLostError);
    expect([hooks(), await stock.quantity()]).toEqual([1, 100]);
  });
}

describe('a lock that is lost in a commit hook, on PostgreSQL', () =>
  lockLostInTheHook('postgres', usePostgres));

describeWithMariaDb('a lock that is lost in a commit hook, on MariaDB', () =>
  lockLostInTheHook('mysql', useMariaDb),
);
