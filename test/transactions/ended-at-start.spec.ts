import { describe, expect, it } from '@jest/globals';
import { LockInTransactionError } from 'nestjs-locked';
import { lockAwareDataSource } from 'nestjs-locked/typeorm';
import type { DataSource, EntityManager, EntitySubscriberInterface } from 'typeorm';
import { type TestDatabase, useMariaDb, usePostgres } from '../support/databases.js';
import { describeWithMariaDb } from '../support/describe-if.js';
import { useRedis } from '../support/shared-redis.js';
import { openDataSource } from './data-source.js';
import { isHeld, startLocks } from './locks.js';
import { type Stock, useStock } from './stock.js';

const redis = useRedis();

type Work = (manager: EntityManager) => Promise<unknown>;

const FORMS: Record<string, (dataSource: DataSource, work: Work) => Promise<unknown>> = {
  'with a callback': (dataSource, work) => dataSource.transaction(work),
  'by hand': async (dataSource, work) => {
    const runner = dataSource.createQueryRunner();
    try {
      await runner.startTransaction();
      await work(runner.manager);
      await runner.commitTransaction();
    } finally {
      await runner.release();
    }
  },
};

/** What begins under the lock: a claim, time-outs alone, or nothing. */
const OPTIONS = {
  'with the fence': { fence: true },
  'with time-outs': {},
  'with nothing': { transactionTimeouts: false },
} as const;

/** The hooks behind the statement that begins it. Each acts once. */
const GIVES_BACK: Record<string, (stock: Stock) => EntitySubscriberInterface> = {
  afterTransactionStart: (stock) => {
    let calls = 0;
    return {
      afterTransactionStart: async ({ queryRunner }) => {
        if (calls++ > 0) return;
        await queryRunner.manager.transaction((nested) => stock.takeOne(nested));
        await queryRunner.release();
      },
    };
  },
  afterQuery: (stock) => {
    let calls = 0;
    return {
      afterQuery: async ({ query, queryRunner }) => {
        if (query !== 'START TRANSACTION' || calls++ > 0) return;
        await stock.takeOne(queryRunner);
        await queryRunner.release();
      },
    };
  },
};

function describeStart(type: 'postgres' | 'mysql', useDatabase: () => TestDatabase): void {
  const database = useDatabase();
  const stock = useStock(database, type);

  /** Sells one. @param sql what the hook after the start sends for it, the first time */
  const sell = async (
    open: (dataSource: DataSource, work: Work) => Promise<unknown>,
    options: (typeof OPTIONS)[keyof typeof OPTIONS],
    ...sql: string[]
  ) => {
    const dataSource = lockAwareDataSource(await openDataSource(type, database.settings));
    const { locks } = await startLocks(redis.url, options);
    let [calls, bodies] = [0, 0];
    dataSource.subscribers.push({
      afterTransactionStart: async ({ queryRunner }) => {
        if (calls++ > 0) return;
        for (const one of sql) await queryRunner.query(one);
      },
    });
    const sale = locks.withLock(stock.key, () =>
      open(dataSource, async (manager) => {
        bodies++;
        await stock.takeOne(manager);
      }),
    );
    return { sale, bodies: () => bodies };
  };

  describe.each(Object.entries(FORMS))('of a transaction %s', (_, open) => {
    describe.each(Object.entries(OPTIONS))('%s', (__, options) => {
      it.each(['ROLLBACK', 'COMMIT'])(
        'that sends %s: the call fails before the body runs',
        async (sql) => {
          const { sale, bodies } = await sell(open, options, sql);
          await expect(sale).rejects.toBeInstanceOf(LockInTransactionError);
          expect([bodies(), await stock.quantity(), await isHeld(redis.url, stock.key)]).toEqual([
            0,
            100,
            false,
          ]);
        },
      );

      it('that begins another one in its place changes nothing', async () => {
        const { sale, bodies } = await sell(open, options, 'ROLLBACK', 'START TRANSACTION');
        await sale;
        expect([bodies(), await stock.quantity()]).toEqual([1, 99]);
      });
    });

    it.each(Object.entries(GIVES_BACK))(
      'that gives the connection back leaves no transaction open on it: %s',
      async (__, subscriber) => {
        const dataSource = lockAwareDataSource(await openDataSource(type, database.settings, 1));
        const { locks } = await startLocks(redis.url, { fence: true });
        dataSource.subscribers.push(subscriber(stock));
        const sale = locks.withLock(stock.key, () => open(dataSource, () => Promise.resolve()));
        await expect(sale).rejects.toThrow('released');
        dataSource.subscribers.length = 0;
        await dataSource.transaction((manager) => manager.query('SELECT 1')); // commits what was left open
        expect([await stock.quantity(), await isHeld(redis.url, stock.key)]).toEqual([100, false]);
      },
    );
  });
}

describe('on PostgreSQL, a hook after the start', () => describeStart('postgres', usePostgres));

describeWithMariaDb('on MariaDB, a hook after the start', () => describeStart('mysql', useMariaDb));
