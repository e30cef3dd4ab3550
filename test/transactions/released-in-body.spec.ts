import { describe, expect, it } from '@jest/globals';
import { lockAwareDataSource } from 'nestjs-locked/typeorm';
import type { DataSource, EntityManager, EntitySubscriberInterface } from 'typeorm';
import { type TestDatabase, useMariaDb, usePostgres } from '../support/databases.js';
import { describeWithMariaDb } from '../support/describe-if.js';
import { useRedis } from '../support/shared-redis.js';
import { openDataSource } from './data-source.js';
import { isHeld, startLocks } from './locks.js';
import { useStock } from './stock.js';

const redis = useRedis();

interface Way {
  readonly run: (
    dataSource: DataSource,
    sell: (manager: EntityManager) => Promise<unknown>,
  ) => Promise<unknown>;
  readonly subscriber?: EntitySubscriberInterface;
}

const ways: Record<string, Way> = {
  'in the body': {
    run: (dataSource, sell) =>
      dataSource.transaction(async (manager) => {
        await sell(manager);
        await manager.release();
      }),
  },
  'twice in a body that throws': {
    run: (dataSource, sell) =>
      dataSource.transaction(async (manager) => {
        await sell(manager);
        await Promise.all([manager.release(), manager.release()]);
        throw new Error('no money');
      }),
  },
  'in the hook before the COMMIT': {
    subscriber: { beforeTransactionCommit: ({ queryRunner }) => queryRunner.release() },
    run: (dataSource, sell) => dataSource.transaction(sell),
  },
  'that one has made oneself': {
    run: (dataSource, sell) => {
      const runner = dataSource.createQueryRunner();
      return runner.manager.transaction(async (manager) => {
        await sell(manager);
        await runner.release();
      });
    },
  },
};

function releasedTooEarly(type: 'postgres' | 'mysql', database: TestDatabase): void {
  const stock = useStock(database, type);

  it.each(Object.keys(ways))('has no transaction open in the pool: %s', async (name) => {
    const { run, subscriber = {} } = ways[name] as Way;
    const dataSource = lockAwareDataSource(await openDataSource(type, database.settings, 1));
    dataSource.subscribers.push(subscriber);
    const { locks } = await startLocks(redis.url);
    const sale = locks.withLock(stock.key, () =>
      run(dataSource, (manager) => stock.takeOne(manager)),
    );
    await expect(sale).rejects.toThrow();
    expect(await isHeld(redis.url, stock.key)).toBe(false);
    dataSource.subscribers.length = 0;
    await dataSource.transaction((manager) => manager.query('SELECT 1')); // commits what was left open
    expect(await stock.quantity()).toBe(100);
  });
}

describe('a query runner that is released before its transaction with a callback has ended', () =>
  releasedTooEarly('postgres', usePostgres()));

describeWithMariaDb('on MariaDB, a query runner that is released too early', () =>
  releasedTooEarly('mysql', useMariaDb()),
);
