import { describe, expect, it } from '@jest/globals';
import { lockAwareDataSource } from 'nestjs-locked/typeorm';
import type { QueryRunner } from 'typeorm';
import { type TestDatabase, useMariaDb, usePostgres } from '../support/databases.js';
import { describeWithMariaDb } from '../support/describe-if.js';
import { useRedis } from '../support/shared-redis.js';
import { openDataSource } from './data-source.js';
import { isHeld, startLocks } from './locks.js';
import { useStock } from './stock.js';

const redis = useRedis();

/** Longer than any healthy COMMIT takes. */
const LEASE_MS = 20_000;

function unawaitedCommit(type: 'postgres' | 'mysql', database: TestDatabase): void {
  const stock = useStock(database, type);

  it('does not stall', async () => {
    const dataSource = lockAwareDataSource(await openDataSource(type, database.settings, 1));
    let isFirst = true;
    const commitsAsWell = async (runner: QueryRunner): Promise<void> => {
      if (!isFirst) return;
      isFirst = false;
      void runner.commitTransaction().catch(() => {});
      await runner.query('SELECT 1').catch(() => {});
    };
    dataSource.subscribers.push({
      beforeTransactionCommit: ({ queryRunner }) => commitsAsWell(queryRunner),
    });
    const { locks } = await startLocks(redis.url, { leaseMs: LEASE_MS });
    const from = performance.now();
    await locks.withLock(stock.key, () =>
      dataSource.transaction((manager) => stock.takeOne(manager)),
    );
    expect(performance.now() - from).toBeLessThan(LEASE_MS / 2);
    expect([await stock.quantity(), await isHeld(redis.url, stock.key)]).toEqual([99, false]);
  });
}

describe('a COMMIT that a hook of TypeORM sends and does not await, beside the one of the transaction', () =>
  unawaitedCommit('postgres', usePostgres()));

describeWithMariaDb('on MariaDB, a COMMIT that a hook does not await', () =>
  unawaitedCommit('mysql', useMariaDb()),
);
