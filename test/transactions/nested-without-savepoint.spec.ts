import { describe, expect, it } from '@jest/globals';
import { LockInTransactionError } from 'nestjs-locked';
import { lockAwareDataSource } from 'nestjs-locked/typeorm';
import { type TestDatabase, useMariaDb, usePostgres } from '../support/databases.js';
import { describeWithMariaDb } from '../support/describe-if.js';
import { useRedis } from '../support/shared-redis.js';
import { openDataSource } from './data-source.js';
import { isHeld, startLocks } from './locks.js';
import { byHand, type OpensTransaction, type Work } from './opened-transaction.js';
import { useStock } from './stock.js';

const redis = useRedis();

const failing = async (): Promise<never> => Promise.reject(new Error('out of credit'));

/** In each, TypeORM takes the end of a nested transaction for that of the transaction itself. */
const WITHOUT_SAVEPOINT: Readonly<Record<string, Work>> = {
  'its body has rolled it back, and throws': ({ manager }) =>
    manager.transaction(async ({ queryRunner }) => {
      await queryRunner?.rollbackTransaction();
      await failing();
    }),
  'its body has committed it': ({ manager }) =>
    manager.transaction(async ({ queryRunner }) => queryRunner?.commitTransaction()),
};

const ON_POSTGRES: Readonly<Record<string, Work>> = {
  ...WITHOUT_SAVEPOINT,
  'an error was swallowed before it': async (runner) => {
    await runner.query('SELECT 1 / 0').catch(() => {});
    await runner.manager.transaction(() => runner.query('SELECT 1'));
  },
  'an error was swallowed in it, before one that is nested in it': ({ manager }) =>
    manager.transaction(async (nested) => {
      await nested.query('SELECT 1 / 0').catch(() => {});
      await nested.transaction((inner) => inner.query('SELECT 1')).catch(() => {});
    }),
};

const ENDS: Readonly<Record<string, OpensTransaction>> = {
  'committed by hand': byHand((runner) => runner.rollbackTransaction()),
  'disposed of': async (dataSource, body) => {
    const runner = dataSource.createQueryRunner();
    try {
      await runner.startTransaction();
      await body(runner);
    } finally {
      await runner[Symbol.asyncDispose]();
    }
  },
};

function nestedWithoutSavepoint(
  type: 'postgres' | 'mysql',
  database: TestDatabase,
  nesting: Readonly<Record<string, Work>>,
): void {
  const stock = useStock(database, type);
  const cases = Object.entries(nesting).flatMap(([name, nested]) =>
    Object.entries(ENDS).map(([end, run]) => ({ name, nested, end, run })),
  );

  const start = async () => {
    const dataSource = lockAwareDataSource(await openDataSource(type, database.settings, 1));
    const { locks } = await startLocks(redis.url, { fence: true });
    return { dataSource, locks };
  };

  it.each(cases)('forbids the commit: $name, $end', async ({ nested, run }) => {
    const { dataSource, locks } = await start();
    const sale = locks.withLock(stock.key, () =>
      run(dataSource, async (runner) => {
        await stock.takeOne(runner);
        await nested(runner).catch(() => {});
      }),
    );
    await expect(sale).rejects.toThrow(/A nested transaction in it would have ended it wholly/);
    await expect(sale).rejects.toBeInstanceOf(LockInTransactionError);
    await dataSource.transaction((manager) => manager.query('SELECT 1')); // commits what was left open
    expect([await stock.quantity(), await isHeld(redis.url, stock.key)]).toEqual([100, false]);
  });

  it.each(cases)('takes no other statement: $name, $end', async ({ nested, run }) => {
    const { dataSource, locks } = await start();
    let refusal: unknown;
    const sale = locks.withLock(stock.key, () =>
      run(dataSource, async (runner) => {
        await nested(runner).catch(() => {});
        await stock.takeOne(runner).catch((error: unknown) => (refusal = error));
      }),
    );
    await expect(sale).rejects.toBeInstanceOf(LockInTransactionError);
    expect(refusal).toBeInstanceOf(LockInTransactionError);
    expect([await stock.quantity(), await isHeld(redis.url, stock.key)]).toEqual([100, false]);
  });

  it('is left to TypeORM without a lock', async () => {
    const { dataSource } = await start();
    const runner = dataSource.createQueryRunner();
    await runner.startTransaction();
    await nesting['its body has rolled it back, and throws']?.(runner).catch(() => {});
    expect(runner.isTransactionActive).toBe(false);
    await runner.release();
  });
}

describe('a nested transaction without a savepoint, on a query runner driven manually', () =>
  nestedWithoutSavepoint('postgres', usePostgres(), ON_POSTGRES));

describeWithMariaDb('on MariaDB, a nested transaction without a savepoint', () =>
  nestedWithoutSavepoint('mysql', useMariaDb(), WITHOUT_SAVEPOINT),
);
