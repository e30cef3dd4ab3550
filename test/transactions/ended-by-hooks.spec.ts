import { describe, expect, it } from '@jest/globals';
import {
  LockCommitUnknownError,
  LockInTransactionError,
  LockLostError,
  type LockService,
} from 'nestjs-locked';
import { lockAwareDataSource } from 'nestjs-locked/typeorm';
import type { EntitySubscriberInterface, QueryRunner } from 'typeorm';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterTest } from '../support/after-test.js';
import { type TestDatabase, useMariaDb, usePostgres } from '../support/databases.js';
import { describeWithMariaDb } from '../support/describe-if.js';
import { eventually } from '../support/eventually.js';
import { useRedis } from '../support/shared-redis.js';
import { openDataSource } from './data-source.js';
import { isHeld, startLocks } from './locks.js';
import { byHand, type OpensTransaction, withCallback, type Work } from './opened-transaction.js';
import { type Stock, useStock } from './stock.js';

const redis = useRedis();

type Type = 'postgres' | 'mysql';

const FORMS: Record<string, OpensTransaction> = {
  'with a callback': withCallback,
  'by hand': byHand((runner) => runner.rollbackTransaction().catch(() => {})), // a hook may have done so
};

/** The hooks between the gate and the COMMIT. */
const HOOKS: Record<string, (hook: Work) => EntitySubscriberInterface> = {
  beforeTransactionCommit: (hook) => ({
    beforeTransactionCommit: async ({ queryRunner }) => void (await hook(queryRunner)),
  }),
  'beforeQuery of the COMMIT': (hook) => ({
    beforeQuery: async ({ query, queryRunner }) => {
      if (query === 'COMMIT') await hook(queryRunner);
    },
  }),
};

const swallowed = async (acting: Promise<unknown>): Promise<void> =>
  void (await acting.catch(() => {}));

/** How a hook ends the transaction. */
const ENDINGS: Record<string, Work> = {
  'a raw ROLLBACK': (runner) => runner.query('ROLLBACK'),
  'rollbackTransaction()': (runner) => runner.rollbackTransaction(),
  'a raw ROLLBACK, and begins another one': async (runner) => {
    await runner.query('ROLLBACK');
    await swallowed(runner.query('START TRANSACTION'));
  },
};

const ENDINGS_OF_POSTGRES: Record<string, Work> = {
  'an error that it swallows': (runner) => swallowed(runner.query('SELECT * FROM no_such_table')),
  'an error and a nested transaction that it swallows': async (runner) => {
    await swallowed(runner.query('SELECT * FROM no_such_table'));
    await swallowed(runner.manager.transaction((inner) => inner.query('SELECT 1')));
  },
  'a ROLLBACK in front of a BEGIN in one text': (runner) => runner.query('ROLLBACK; BEGIN'),
};

async function lose(locks: LockService, { key }: Stock): Promise<void> {
  const lock = locks.current(key);
  await locks.forceRelease(key);
  await eventually(() => expect(lock?.isHeld).toBe(false));
}

function describeHooks(type: Type, database: TestDatabase, stock: Stock, endings = ENDINGS): void {
  const start = async (subscriber?: EntitySubscriberInterface) => {
    const dataSource = lockAwareDataSource(await openDataSource(type, database.settings));
    if (subscriber !== undefined) dataSource.subscribers.push(subscriber);
    const { locks } = await startLocks(redis.url, { fence: true });
    return { dataSource, locks };
  };
  const once = (hook: Work): Work => {
    let calls = 0;
    return async (runner) => (calls++ === 0 ? hook(runner) : undefined);
  };
  const addTen = `UPDATE stock SET quantity = quantity + 10 WHERE id = ${type === 'mysql' ? '?' : '$1'}`;

  describe.each(Object.entries(FORMS))('of a transaction %s', (_, open) => {
    describe.each(Object.entries(HOOKS))('%s', (__, subscriber) => {
      it.each(Object.entries(endings))(
        'that ends it by %s: the call fails, and nothing is written',
        async (___, act) => {
          const { dataSource, locks } = await start(subscriber(once(act)));
          const sale = locks.withLock(stock.key, () =>
            open(dataSource, (runner) => stock.takeOne(runner)),
          );
          await expect(sale).rejects.toBeInstanceOf(LockInTransactionError);
          expect([await stock.quantity(), await isHeld(redis.url, stock.key)]).toEqual([
            100,
            false,
          ]);
        },
      );

      it('that has sent a ROLLBACK can write nothing behind it', async () => {
        let inHook: unknown;
        const act = once(async (runner) => {
          await runner.query('ROLLBACK');
          inHook = await runner.query(addTen, [stock.product]).catch((error: unknown) => error);
        });
        const { dataSource, locks } = await start(subscriber(act));
        const sale = locks.withLock(stock.key, () =>
          open(dataSource, (runner) => stock.takeOne(runner)),
        );
        await expect(sale).rejects.toBeInstanceOf(LockInTransactionError);
        expect(inHook).toBeInstanceOf(LockInTransactionError);
        expect(await stock.quantity()).toBe(100);
      });

      it('that sends statements of its own is committed with it', async () => {
        const act = once(async (runner) => {
          await swallowed(runner.query('SAVEPOINT mine'));
          await swallowed(runner.query('SELECT * FROM no_such_table'));
          await runner.query('ROLLBACK TO SAVEPOINT mine');
          await runner.query(addTen, [stock.product]);
        });
        const { dataSource, locks } = await start(subscriber(act));
        await locks.withLock(stock.key, () => open(dataSource, (runner) => stock.takeOne(runner)));
        expect(await stock.quantity()).toBe(109);
      });
    });

    it('code of the application that keeps the COMMIT from the database: nothing is told to be committed', async () => {
      const { dataSource, locks } = await start({
        beforeTransactionCommit: ({ queryRunner }) => {
          const query = queryRunner.query.bind(queryRunner) as (...args: unknown[]) => unknown;
          const keepCommit = async (...args: unknown[]) =>
            args[0] === 'COMMIT' ? undefined : query(...args);
          Object.assign(queryRunner, { query: keepCommit });
        },
      });
      const sale = locks.withLock(stock.key, () =>
        open(dataSource, (runner) => stock.takeOne(runner)),
      );
      await expect(sale).rejects.toBeInstanceOf(LockCommitUnknownError);
      expect(await stock.quantity()).toBe(100);
    });

    it('afterTransactionRollback may begin the next one by a statement', async () => {
      const next = once(async (runner) => {
        await runner.query('START TRANSACTION');
        await runner.query(addTen, [stock.product]);
        await runner.query('COMMIT');
      });
      const { dataSource, locks } = await start({
        beforeTransactionCommit: () => Promise.reject(new Error('no money')),
        afterTransactionRollback: async ({ queryRunner }) => void (await next(queryRunner)),
      });
      const sale = locks.withLock(stock.key, () =>
        open(dataSource, (runner) => stock.takeOne(runner)),
      );
      await expect(sale).rejects.toThrow('no money');
      expect(await stock.quantity()).toBe(110);
    });
  });
}

describe('on PostgreSQL, a hook', () => {
  const postgres = usePostgres();
  const stock = useStock(postgres);
  describeHooks('postgres', postgres, stock, { ...ENDINGS, ...ENDINGS_OF_POSTGRES });

  it.each(Object.entries(FORMS))(
    'whose own COMMIT was refused is not followed by another one: a transaction %s',
    async (_, open) => {
      const dataSource = lockAwareDataSource(await openDataSource('postgres', postgres.settings));
      const { locks } = await startLocks(redis.url, { fence: true });
      let inHook: unknown;
      dataSource.subscribers.push({
        beforeTransactionCommit: async ({ queryRunner }) => {
          const failing = queryRunner.query('SELECT * FROM no_such_table').catch(() => {});
          inHook = await queryRunner.query('COMMIT').catch((error: unknown) => error);
          await failing;
          await queryRunner.query('BEGIN'); // nobody can tell that this is another one
          await queryRunner.query('UPDATE stock SET quantity = 500 WHERE id = $1', [stock.product]);
        },
      });
      const sale = locks.withLock(stock.key, () =>
        open(dataSource, (runner) => stock.takeOne(runner)),
      );
      await expect(sale).rejects.toBeInstanceOf(LockInTransactionError);
      expect(inHook).toHaveProperty('driverError', expect.any(LockInTransactionError));
      expect(await stock.quantity()).toBe(100);
    },
  );
});

describeWithMariaDb('on MariaDB, a hook', () => {
  const mariaDb = useMariaDb();
  const stock = useStock(mariaDb, 'mysql');
  describeHooks('mysql', mariaDb, stock);

  const start = async (
    hook: Work,
    subscriber = HOOKS['beforeTransactionCommit'],
    poolSize?: number,
  ) => {
    const dataSource = lockAwareDataSource(
      await openDataSource('mysql', mariaDb.settings, poolSize),
    );
    const { locks } = await startLocks(redis.url, { fence: true });
    if (subscriber) dataSource.subscribers.push(subscriber(hook));
    return { dataSource, locks };
  };

  /** Another transaction wants the two rows in the other order, and has done more, so that it is not the victim. */
  async function deadlock(runner: QueryRunner): Promise<unknown> {
    const [mine, others] = [`${stock.product}-mine`, `${stock.product}-others`];
    const other = await openDataSource('mysql', mariaDb.settings, 1);
    const rival = other.createQueryRunner();
    afterTest(() => rival.release());
    const raise = 'UPDATE stock SET quantity = quantity + 1 WHERE id = ?';
    await rival.query('INSERT INTO stock VALUES (?, 0), (?, 0)', [mine, others]);
    await rival.startTransaction();
    await rival.query(raise, [others]);
    for (let i = 0; i < 50; i++) {
      await rival.query('INSERT INTO stock VALUES (?, 0)', [`${stock.product}-${i}`]);
    }
    await runner.query(raise, [mine]);
    const rivals = rival.query(raise, [mine]);
    await eventually(async () => {
      await sleep(150); // MariaDB looks again only if nobody has asked for 100 ms
      const waiting = "SELECT 1 FROM information_schema.innodb_trx WHERE trx_state = 'LOCK WAIT'";
      expect(await mariaDb.query(waiting)).toHaveLength(1);
    });
    const error: unknown = await runner.query(raise, [others]).catch((caught: unknown) => caught);
    await rivals;
    await rival.rollbackTransaction();
    return error;
  }

  describe.each(Object.entries(FORMS))('of a transaction %s', (_, open) => {
    it.each(Object.entries(HOOKS))(
      'that swallows a deadlock (%s): the call fails, and nothing is written',
      async (__, subscriber) => {
        let inHook: unknown;
        const { dataSource, locks } = await start(async (runner) => {
          inHook = await deadlock(runner);
        }, subscriber);
        const sale = locks.withLock(stock.key, () =>
          open(dataSource, (runner) => stock.takeOne(runner)),
        );
        await expect(sale).rejects.toBeInstanceOf(LockInTransactionError);
        expect(inHook).toHaveProperty('errno', 1213);
        expect(await stock.quantity()).toBe(100);
      },
    );

    it('that swallows a deadlock and reads afterwards: the call fails', async () => {
      const { dataSource, locks } = await start(async (runner) => {
        await deadlock(runner);
        await runner.query('SELECT 1');
      });
      const sale = locks.withLock(stock.key, () =>
        open(dataSource, (runner) => stock.takeOne(runner)),
      );
      await expect(sale).rejects.toBeInstanceOf(LockInTransactionError);
      expect(await stock.quantity()).toBe(100);
    });

    it('that swallows an error, after which the database does not say how it is: the call fails', async () => {
      const { dataSource, locks } = await start(async (runner) => {
        await swallowed(runner.query('SELECT * FROM no_such_table'));
        const connection = (await runner.connect()) as { query: (...args: unknown[]) => unknown };
        const { query } = connection;
        connection.query = (sql, ...rest) =>
          query.call(connection, sql === 'DO 0' ? 'DO no_such_function()' : sql, ...rest);
        afterTest(() => void (connection.query = query));
      });
      const sale = locks.withLock(stock.key, () =>
        open(dataSource, (runner) => stock.takeOne(runner)),
      );
      await expect(sale).rejects.toBeInstanceOf(LockInTransactionError);
      expect(await stock.quantity()).toBe(100);
    });

    it('that creates a table: the call fails, because nobody knows what that has committed', async () => {
      const { dataSource, locks } = await start((runner) =>
        runner.query('CREATE TABLE IF NOT EXISTS of_hook (id int)'),
      );
      const sale = locks.withLock(stock.key, () =>
        open(dataSource, (runner) => stock.takeOne(runner)),
      );
      await expect(sale).rejects.toBeInstanceOf(LockInTransactionError);
    });

    it('that swallows that its own COMMIT was refused, and rolls back: the call fails', async () => {
      const { dataSource, locks } = await start(async (runner) => {
        await swallowed(runner.query('COMMIT nothing'));
        await runner.rollbackTransaction();
      });
      const sale = locks.withLock(stock.key, () =>
        open(dataSource, (runner) => stock.takeOne(runner)),
      );
      await expect(sale).rejects.toThrow(
        /^The database has ended the transaction before its COMMIT/,
      );
      expect([await stock.quantity(), await isHeld(redis.url, stock.key)]).toEqual([100, false]);
    });

    it.each(
      Object.entries(HOOKS).flatMap(([hook, subscriber]) =>
        ['START TRANSACTION', 'BEGIN', 'SET autocommit = 1'].map(
          (sql) => [sql, hook, subscriber] as const,
        ),
      ),
    )(
      'that sends %s after the lock was lost is refused, and nothing is written: %s',
      async (sql, __, subscriber) => {
        let inHook: unknown;
        const { dataSource, locks } = await start(async (runner) => {
          if (inHook !== undefined) return;
          inHook = 'asked';
          await lose(locks, stock);
          inHook = await runner.query(sql).catch((error: unknown) => error);
        }, subscriber);
        const sale = locks.withLock(stock.key, () =>
          open(dataSource, (runner) => stock.takeOne(runner)),
        );
        await expect(sale).rejects.toBeInstanceOf(LockLostError);
        expect(inHook).toBeInstanceOf(LockLostError);
        expect(await stock.quantity()).toBe(100);
      },
    );
  });

  it.each([
    ['nothing', 0, () => Promise.resolve()],
    ['an UPDATE', 1, (runner) => runner.query('UPDATE stock SET quantity = 0 WHERE false')],
    ['a SELECT', 1, (runner) => runner.query('SELECT 1')],
  ] satisfies [string, number, Work][])(
    'that sends %s costs no round trip more',
    async (_, own, hook) => {
      const { dataSource, locks } = await start(hook, undefined, 1);
      const count = async ({ query }: { query: (sql: string) => Promise<unknown> }) => {
        const rows = await query("SHOW SESSION STATUS LIKE 'Questions'");
        return Number((rows as { Value: string }[])[0]?.Value);
      };
      let before = 0;
      await locks.withLock(stock.key, () =>
        dataSource.transaction(async (manager) => {
          before = await count({ query: (sql) => manager.query(sql) });
        }),
      );
      const after = await count({ query: (sql) => dataSource.query(sql) });
      expect(after - before).toBe(own + 3); // the savepoint, the COMMIT and the question itself
    },
  );
});
