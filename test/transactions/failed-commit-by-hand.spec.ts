import { describe, expect, it } from '@jest/globals';
import { LockCommitUnknownError, LockInTransactionError, LockLostError } from 'nestjs-locked';
import { lockAwareDataSource } from 'nestjs-locked/typeorm';
import type { EntitySubscriberInterface, QueryRunner } from 'typeorm';
import { useMariaDb, usePostgres } from '../support/databases.js';
import { describeWithMariaDb } from '../support/describe-if.js';
import { eventually } from '../support/eventually.js';
import { useRedis } from '../support/shared-redis.js';
import { openDataSource } from './data-source.js';
import { isHeld, startLocks } from './locks.js';
import { createSlowCommitTable, whenCommitting } from './slow-commit.js';
import { type Stock, useStock } from './stock.js';

const redis = useRedis();

const told = (work: Promise<unknown>): Promise<unknown> =>
  work.then(
    () => 'done',
    (error: unknown) => error,
  );

const once = (hook: () => Promise<unknown>): (() => Promise<void>) => {
  let calls = 0;
  return async () => {
    if (++calls === 1) await hook();
  };
};

const failing = (): EntitySubscriberInterface => ({
  beforeTransactionCommit: once(() => Promise.reject(new Error('not now'))),
});

const REFUSED = expect.any(LockInTransactionError);

function describeFailedCommits(
  type: 'postgres' | 'mysql',
  useDatabase: typeof usePostgres | typeof useMariaDb,
): { readonly database: ReturnType<typeof usePostgres>; readonly stock: Stock } {
  const database = useDatabase();
  const stock = useStock(database, type);

  it('may be committed again after a hook has thrown before the COMMIT', async () => {
    const { runner, locks } = await start(type, database, failing());
    const outcome = await locks.withLock(stock.key, async () => {
      await runner.startTransaction();
      await stock.takeOne(runner.manager);
      const first = await told(runner.commitTransaction());
      await stock.takeOne(runner.manager);
      return [first, await told(runner.commitTransaction())];
    });
    expect(outcome).toEqual([new Error('not now'), 'done']);
    await runner.release();
    expect(await stock.quantity()).toBe(98);
  });
  return { database, stock };
}

async function start(
  type: 'postgres' | 'mysql',
  database: ReturnType<typeof usePostgres>,
  subscriber: EntitySubscriberInterface,
) {
  const dataSource = lockAwareDataSource(await openDataSource(type, database.settings, 1));
  const { locks } = await startLocks(redis.url, { fence: true });
  dataSource.subscribers.push(subscriber);
  return { locks, dataSource, runner: dataSource.createQueryRunner() };
}

describe('a query runner driven manually, whose COMMIT was not sent', () => {
  const { database, stock } = describeFailedCommits('postgres', usePostgres);
  const add = (runner: QueryRunner): Promise<unknown> =>
    runner.query(`UPDATE stock SET quantity = quantity + 1000 WHERE id = '${stock.product}'`);

  it.each([
    { statements: ['ROLLBACK'], told: ['done'] },
    { statements: ['ROLLBACK', 'BEGIN'], told: ['done', REFUSED] },
    { statements: ['COMMIT'], told: [REFUSED] },
  ])('takes nothing behind $statements', async ({ statements, told: expected }) => {
    const { runner, locks } = await start('postgres', database, failing());
    const outcome = await locks.withLock(stock.key, async () => {
      await runner.startTransaction();
      await stock.takeOne(runner.manager);
      await told(runner.commitTransaction());
      const ended: unknown[] = [];
      for (const sql of statements) ended.push(await told(runner.query(sql)));
      ended.push(await told(add(runner)), await told(runner.commitTransaction()));
      await runner.rollbackTransaction();
      return ended;
    });
    expect(outcome).toEqual([...expected, REFUSED, REFUSED]);
    await runner.release();
    expect(await stock.quantity()).toBe(100);
  });

  it('takes nothing more if its lock was lost on the way', async () => {
    let lose: () => Promise<unknown> = () => Promise.resolve();
    const { runner, locks } = await start('postgres', database, {
      beforeQuery: ({ query }) => (query === 'COMMIT' ? lose() : undefined),
    });
    const outcome = await told(
      locks.withLock(stock.key, async (lock) => {
        lose = once(async () => {
          await locks.forceRelease(stock.key);
          await eventually(() => expect(lock.isHeld).toBe(false));
        });
        await runner.startTransaction();
        await stock.takeOne(runner.manager);
        const commit = await told(runner.commitTransaction());
        const late = await told(add(runner));
        const again = await told(runner.commitTransaction());
        await runner.rollbackTransaction();
        expect([commit, late, again]).toEqual([
          expect.any(LockLostError),
          REFUSED,
          expect.any(LockLostError),
        ]);
      }),
    );
    expect(outcome).not.toHaveProperty('matcherResult');
    await runner.release();
    expect(await stock.quantity()).toBe(100);
  });

  it('takes nothing before its rollback if the database has refused the COMMIT', async () => {
    const { runner, locks } = await start('postgres', database, {});
    await database.query('CREATE TABLE sales (product text UNIQUE DEFERRABLE INITIALLY DEFERRED)');
    const outcome = await locks.withLock(stock.key, async () => {
      await runner.startTransaction();
      await runner.query(`INSERT INTO sales VALUES ('one'), ('one')`);
      const commit = await told(runner.commitTransaction());
      const late = await told(add(runner));
      await runner.rollbackTransaction();
      return [commit, late, await told(runner.query('SELECT 1'))];
    });
    expect(outcome).toEqual([expect.objectContaining({ code: '23505' }), REFUSED, 'done']);
    await runner.release();
    expect(await stock.quantity()).toBe(100);
  });

  it('has ended, and its lock with it, if a hook behind the COMMIT throws', async () => {
    const { runner, locks } = await start('postgres', database, {
      afterTransactionCommit: () => Promise.reject(new Error('too late')),
    });
    const outcome = await locks.withLock(stock.key, async () => {
      await runner.startTransaction();
      await stock.takeOne(runner.manager);
      return told(runner.commitTransaction());
    });
    expect(outcome).toEqual(new Error('too late'));
    expect([await stock.quantity(), await isHeld(redis.url, stock.key)]).toEqual([99, false]);
    await runner.release();
  });

  it('loses its connection if it is released while its COMMIT is in flight', async () => {
    await createSlowCommitTable(database);
    const { runner, locks, dataSource } = await start('postgres', database, {});
    const pid = async (): Promise<unknown> => {
      const [row] = await dataSource.query<{ pid: number }[]>('SELECT pg_backend_pid() AS pid');
      return row?.pid;
    };
    const before = await pid();
    const outcome = await locks.withLock(stock.key, async () => {
      await runner.startTransaction();
      await runner.query('INSERT INTO slow VALUES (1)');
      const committed = told(runner.commitTransaction());
      await whenCommitting(database);
      await runner.release();
      return committed;
    });
    expect(outcome).toBeInstanceOf(LockCommitUnknownError);
    expect(await pid()).not.toBe(before);
  });

  it.each(['rollbackTransaction', 'release'] as const)(
    'leaves the lock to its call if it is committed again, and ended by %s()',
    async (end) => {
      const { runner, locks } = await start('postgres', database, {});
      await database.query(
        'CREATE TABLE IF NOT EXISTS once (one int UNIQUE DEFERRABLE INITIALLY DEFERRED)',
      );
      const outcome = await locks.withLock(stock.key, async (lock) => {
        await runner.startTransaction();
        await runner.query('INSERT INTO once VALUES (1), (1)');
        const commit = await told(runner.commitTransaction());
        const again = await told(runner.commitTransaction());
        await runner[end]();
        return [commit, again, lock.isHeld, await isHeld(redis.url, stock.key)];
      });
      expect(outcome).toEqual([expect.objectContaining({ code: '23505' }), REFUSED, true, true]);
      expect(await isHeld(redis.url, stock.key)).toBe(false);
      await runner.release();
    },
  );
});

describeWithMariaDb('the same on MariaDB', () => {
  const { database, stock } = describeFailedCommits('mysql', useMariaDb);

  it.each(['with a callback', 'by hand'])(
    'is not committed if its lock was lost on the way, %s',
    async (form) => {
      let lose: () => Promise<unknown> = () => Promise.resolve();
      const { runner, locks } = await start('mysql', database, {
        beforeQuery: ({ query }) => (query === 'COMMIT' ? lose() : undefined),
      });
      const sale = locks.withLock(stock.key, async (lock) => {
        lose = once(async () => {
          await locks.forceRelease(stock.key);
          await eventually(() => expect(lock.isHeld).toBe(false));
        });
        if (form !== 'by hand') {
          return runner.manager.transaction((manager) => stock.takeOne(manager));
        }
        await runner.startTransaction();
        await stock.takeOne(runner.manager);
        await runner.commitTransaction().finally(() => runner.rollbackTransaction());
      });
      await expect(sale).rejects.toBeInstanceOf(LockLostError);
      await runner.release();
      expect(await stock.quantity()).toBe(100);
    },
  );

  it('is committed by nobody after a COMMIT that was refused without being carried out', async () => {
    const { runner, locks, dataSource } = await start('mysql', database, {});
    const connection = (await runner.connect()) as { query: (...args: unknown[]) => unknown };
    const { query } = connection;
    connection.query = (sql, ...rest) =>
      query.call(connection, sql === 'COMMIT' ? 'DO no_such_function()' : sql, ...rest);
    const outcome = await told(
      locks.withLock(stock.key, async () => {
        await runner.startTransaction();
        await stock.takeOne(runner.manager);
        await runner.commitTransaction();
      }),
    );
    expect(outcome).toBeInstanceOf(Error);
    connection.query = query;
    await runner.release();
    // The pool hands the same connection out again.
    await dataSource.transaction((manager) => manager.query('SELECT 1'));
    expect(await stock.quantity()).toBe(100);
  });

  it.each(['COMMIT nothing', 'START TRANSACTION nothing'])(
    'is committed by nobody after %s of a hook, which was not understood',
    async (sql) => {
      const { runner, locks, dataSource } = await start('mysql', database, {
        beforeTransactionCommit: ({ queryRunner }) => queryRunner.query(sql),
      });
      const outcome = await locks.withLock(stock.key, async () => {
        await runner.startTransaction();
        await stock.takeOne(runner.manager);
        const commit = await told(runner.commitTransaction());
        await runner.release();
        return commit;
      });
      expect(outcome).toHaveProperty(
        'message',
        expect.stringContaining('error in your SQL syntax'),
      );
      dataSource.subscribers.length = 0;
      await dataSource.transaction((manager) => manager.query('SELECT 1')); // commits what was left open
      expect(await stock.quantity()).toBe(100);
    },
  );

  it('is not committed again if a statement has ended the transaction meanwhile', async () => {
    const { runner, locks } = await start('mysql', database, failing());
    const again = await locks.withLock(stock.key, async () => {
      await runner.startTransaction();
      await told(runner.commitTransaction());
      await runner.query('CREATE TABLE made (id int)'); // commits
      const refused = await told(runner.commitTransaction());
      await runner.rollbackTransaction();
      return refused;
    });
    expect(again).toEqual(REFUSED);
    await runner.release();
  });
});
