import { describe, expect, it } from '@jest/globals';
import { LockCommitUnknownError, LockInTransactionError, LockLostError } from 'nestjs-locked';
import { lockAwareTransactions } from 'nestjs-locked/transactions';
import { lockAware } from 'nestjs-locked/typeorm';
import pg from 'pg';
import type { DataSource, EntityManager, EntitySubscriberInterface, QueryRunner } from 'typeorm';
import { afterTest } from '../support/after-test.js';
import { useMariaDb, usePostgres } from '../support/databases.js';
import { describeWithMariaDb } from '../support/describe-if.js';
import { eventually } from '../support/eventually.js';
import { useRedis } from '../support/shared-redis.js';
import { openDataSource } from './data-source.js';
import { isHeld, startLocks } from './locks.js';
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

describe('a COMMIT right behind a statement that fails, on PostgreSQL', () => {
  const postgres = usePostgres();
  const stock = useStock(postgres);

  /** It is sent after the gate, and nobody awaits it: at the COMMIT the driver does not know what became of it. */
  const fail = (client: { query(sql: string): Promise<unknown> }): void =>
    void client.query('SELECT 1 / 0').catch(() => {});

  it('is no success with TypeORM, whose commit hook has sent that', async () => {
    const dataSource = lockAware(await openDataSource('postgres', postgres.settings));
    const { locks } = await startLocks(redis.url);
    let hooks = 0;
    const subscriber: EntitySubscriberInterface = {
      beforeTransactionCommit({ queryRunner }) {
        hooks++;
        fail(queryRunner);
      },
    };
    dataSource.subscribers.push(subscriber);
    const sale = locks.withLock(stock.key, () =>
      dataSource.transaction((manager) => stock.takeOne(manager)),
    );
    await expect(sale).rejects.toBeInstanceOf(LockInTransactionError);
    expect([hooks, await stock.quantity()]).toEqual([1, 100]);
  });

  /** The driver knows what became of the transaction: that comes after the error. */
  const serverIsReady = async (runner: QueryRunner): Promise<void> => {
    const client = (await runner.connect()) as { readyForQuery: boolean };
    await eventually(() => expect(client.readyForQuery).toBe(true));
  };

  /** The hook swallows the error. */
  const hooks: [string, (runner: QueryRunner) => void | Promise<unknown>][] = [
    ['and was not awaited', fail],
    [
      'and was answered',
      async (runner) => {
        await runner.query('SELECT 1 / 0').catch(() => {});
        await serverIsReady(runner);
      },
    ],
  ];

  describe.each(hooks)('in the commit hook of a query runner driven by hand, %s', (_, act) => {
    const endings: [string, (runner: QueryRunner) => Promise<void>][] = [
      ['rolls back', (runner) => runner.rollbackTransaction()],
      ['only releases it', () => Promise.resolve()],
    ];

    it.each(endings)('is no success, and its owner %s', async (__, end) => {
      const dataSource = lockAware(await openDataSource('postgres', postgres.settings, 1));
      const { locks } = await startLocks(redis.url);
      let calls = 0;
      const subscriber: EntitySubscriberInterface = {
        beforeTransactionCommit: ({ queryRunner }) =>
          calls++ === 0 ? act(queryRunner) : undefined,
      };
      dataSource.subscribers.push(subscriber);
      const sale = locks.withLock(stock.key, async () => {
        const runner = dataSource.createQueryRunner();
        try {
          await runner.startTransaction();
          await stock.takeOne(runner);
          await runner.commitTransaction();
        } catch (error) {
          await end(runner);
          throw error;
        } finally {
          await runner.release();
        }
      });
      await expect(sale).rejects.toBeInstanceOf(LockInTransactionError);
      expect([calls, await stock.quantity()]).toEqual([1, 100]);
      // The same connection is in order, and so is the next sale.
      await dataSource.transaction((manager) => stock.takeOne(manager));
      expect(await stock.quantity()).toBe(99);
    });
  });

  it('is no success with node-postgres, whose COMMIT is answered with ROLLBACK', async () => {
    const pool = new pg.Pool({ connectionString: postgres.url });
    afterTest(() => pool.end());
    const run = lockAwareTransactions<pg.PoolClient>({ dialect: 'postgres', pool });
    const { locks } = await startLocks(redis.url);
    let answer: unknown;
    const sale = locks.withLock(stock.key, () =>
      run(async (wrap) => {
        const client = await pool.connect();
        try {
          await client.query('BEGIN');
          await wrap(client, (tx) => stock.takeOne({ query: rowsFrom(tx) }));
          fail(client);
          answer = await client.query('COMMIT').catch((error: unknown) => error);
        } finally {
          client.release();
        }
      }),
    );
    await expect(sale).rejects.toBeInstanceOf(LockInTransactionError);
    expect(answer).toBeInstanceOf(LockInTransactionError);
    expect(await stock.quantity()).toBe(100);
  });
});

const rowsFrom =
  (client: pg.PoolClient) =>
  async (sql: string, params: unknown[]): Promise<unknown[]> =>
    (await client.query<pg.QueryResultRow>(sql, params)).rows;

describe('a call that has succeeded, by what it has sent', () => {
  const postgres = usePostgres();
  const stock = useStock(postgres);

  const sellAnd = async (last: string): Promise<{ told: unknown; isHeld: boolean }> => {
    const pool = new pg.Pool({ connectionString: postgres.url });
    afterTest(() => pool.end());
    const { locks } = await startLocks(redis.url);
    const run = lockAwareTransactions<pg.PoolClient>({ dialect: 'postgres', pool });
    let client: pg.PoolClient | undefined;
    const told = await locks
      .withLock(stock.key, () =>
        run(async (wrap) => {
          client = await pool.connect();
          await client.query('BEGIN');
          await wrap(client, (tx) => stock.takeOne({ query: rowsFrom(tx) }));
          await client.query(last);
        }),
      )
      .catch((error: unknown) => error);
    const answer = { told, isHeld: await isHeld(redis.url, stock.key) };
    client?.release(true);
    return answer;
  };

  it.each(['SELECT 1', 'RELEASE SAVEPOINT nothing'])(
    'is a commit in doubt if neither COMMIT nor ROLLBACK was sent, but %s',
    async (last) => {
      const savepoint = last.startsWith('RELEASE') ? 'SAVEPOINT nothing; ' : '';
      const { told, isHeld: lasts } = await sellAnd(savepoint + last);
      expect(told).toBeInstanceOf(LockCommitUnknownError);
      expect(lasts).toBe(true); // as long as the lease
      expect(await stock.quantity()).toBe(100);
    },
  );

  it('is a rollback if it has rolled back on purpose, after the body', async () => {
    expect(await sellAnd('ROLLBACK')).toEqual({ told: undefined, isHeld: false });
    expect(await stock.quantity()).toBe(100);
  });

  it('is a commit if that was sent', async () => {
    expect(await sellAnd('COMMIT')).toEqual({ told: undefined, isHeld: false });
    expect(await stock.quantity()).toBe(99);
  });
});

describe('a transaction that a hook opens after the COMMIT', () => {
  const postgres = usePostgres();
  const stock = useStock(postgres);

  it('says nothing of the one that is committed, although the lock is lost by then', async () => {
    const dataSource = lockAware(await openDataSource('postgres', postgres.settings, 1));
    const { locks } = await startLocks(redis.url);
    let hooks = 0;
    const subscriber: EntitySubscriberInterface = {
      async afterTransactionCommit({ queryRunner }) {
        if (hooks++ > 0) return;
        const lock = locks.current(stock.key);
        await locks.forceRelease(stock.key);
        await eventually(() => expect(lock?.isHeld).toBe(false));
        await queryRunner.query('BEGIN');
        await stock.takeOne(queryRunner);
        await queryRunner.query('COMMIT');
      },
    };
    dataSource.subscribers.push(subscriber);
    await locks.withLock(stock.key, () =>
      dataSource.transaction((manager) => stock.takeOne(manager)),
    );
    expect([hooks, await stock.quantity()]).toEqual([1, 98]);
  });
});
