import { describe, expect, it } from '@jest/globals';
import {
  LockCommitUnknownError,
  LockInTransactionError,
  LockLostError,
  type LockService,
} from 'nestjs-locked';
import { lockAwareDataSource } from 'nestjs-locked/typeorm';
import type { DataSource, EntityManager, EntitySubscriberInterface, QueryRunner } from 'typeorm';
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

describe('hooks that leave a transaction open', () => {
  const redis = useRedis();
  const postgres = usePostgres();
  const stock = useStock(postgres);

  type How = 'with TypeORM alone' | 'without a lock' | 'under a lock' | 'under a fenced lock';
  type Act = (runner: QueryRunner) => Promise<unknown>;

  /** Opens a pool of one connection. Each hook acts once. */
  async function start(
    how: How,
    hooks: Record<string, Act>,
    type: 'postgres' | 'mysql' = 'postgres',
    database: TestDatabase = postgres,
  ) {
    const plain = await openDataSource(type, database.settings, 1);
    const dataSource = how === 'with TypeORM alone' ? plain : lockAwareDataSource(plain);
    const { locks } = await startLocks(
      redis.url,
      how === 'under a fenced lock' ? { fence: {} } : {},
    );
    const subscriber: EntitySubscriberInterface = {};
    for (const [hook, act] of Object.entries(hooks)) {
      let isDone = false;
      const once = async ({
        queryRunner,
      }: {
        readonly queryRunner: QueryRunner;
      }): Promise<void> => {
        if (isDone) return;
        isDone = true;
        await act(queryRunner);
      };
      Object.assign(subscriber, { [hook]: once });
    }
    dataSource.subscribers.push(subscriber);
    const call = <T>(work: () => Promise<T>, key = stock.key): Promise<T> =>
      how.startsWith('under') ? locks.withLock(key, work) : work();
    return { dataSource, call };
  }

  /** @returns the class of the error, or 'done' */
  const told = (work: Promise<unknown>): Promise<string> =>
    work.then(
      () => 'done',
      (error: Error) => error.constructor.name,
    );

  /** Restores the quantity, to sell the same product once more. */
  async function restock(): Promise<void> {
    await postgres.query('UPDATE stock SET quantity = 100 WHERE id = $1', [stock.product]);
  }

  class Planned extends Error {}

  async function sellOn(runner: QueryRunner, from = stock): Promise<void> {
    await runner.startTransaction();
    await from.takeOne(runner.manager);
    await runner.commitTransaction();
  }

  describe('a hook at the start that ends the transaction', () => {
    const ENDS: Record<string, Act> = {
      'by ROLLBACK': (runner) => runner.rollbackTransaction(),
      'by COMMIT': (runner) => runner.commitTransaction(),
      'by a nested one after an error that it swallows': async ({ manager }) => {
        await manager.query('INSERT INTO there_is_none VALUES (1)').catch(() => {});
        await manager.transaction((nested) => stock.takeOne(nested)).catch(() => {});
      },
      'and begins another one': async (runner) => {
        await runner.rollbackTransaction();
        await runner.startTransaction();
      },
    };

    /** Sells twice on the same query runner. @returns both outcomes, and how many pieces are sold */
    async function sellTwo(how: How, act: Act): Promise<unknown[]> {
      const { dataSource, call } = await start(how, { afterTransactionStart: act });
      const outcome = await call(async () => {
        const runner = dataSource.createQueryRunner();
        const tried = [await told(sellOn(runner)), await told(sellOn(runner))];
        await runner.release();
        return tried;
      });
      expect(await isHeld(redis.url, stock.key)).toBe(false);
      return [...outcome, 100 - (await stock.quantity())];
    }

    describe.each(Object.entries(ENDS))('%s', (_, act) => {
      it.each(['under a lock', 'under a fenced lock'] as const)(
        'makes the start fail, and delays neither the lock nor the next transaction, %s [D89]',
        async (how) => {
          expect(await sellTwo(how, act)).toEqual([LockInTransactionError.name, 'done', 1]);
        },
      );

      it('makes the start fail under a lock, even if the driver does not report the end', async () => {
        const { dataSource, call } = await start('under a lock', {
          afterTransactionStart: async (runner) => {
            Object.assign(await runner.connect(), { getTransactionStatus: undefined });
            await act(runner);
          },
        });
        const runner = dataSource.createQueryRunner();
        const tried = await call(async () => [
          await told(sellOn(runner)),
          await told(sellOn(runner)),
        ]);
        await runner.release();
        expect([...tried, await stock.quantity()]).toEqual([
          LockInTransactionError.name,
          'done',
          99,
        ]);
      });

      it('changes nothing without a lock', async () => {
        const alone = await sellTwo('with TypeORM alone', act);
        expect(alone.at(-1)).toBe(2);
        await restock();
        expect(await sellTwo('without a lock', act)).toEqual(alone);
      });
    });
  });

  type Work = (manager: EntityManager) => Promise<void>;
  const SHAPES: Record<string, (dataSource: DataSource, work: Work) => Promise<void>> = {
    'with a callback': (dataSource, work) => dataSource.transaction(work),
    'with a callback on a query runner': async (dataSource, work) => {
      const runner = dataSource.createQueryRunner();
      await runner.manager.transaction(work).finally(() => runner.release());
    },
    'by hand': async (dataSource, work) => {
      const runner = dataSource.createQueryRunner();
      try {
        await runner.startTransaction();
        try {
          await work(runner.manager);
          await runner.commitTransaction();
        } catch (error) {
          await runner.rollbackTransaction();
          throw error;
        }
      } finally {
        await runner.release();
      }
    },
  };

  /**
   * Runs a transaction that fails, then another that would commit what is left open. @returns how many pieces are sold
   */
  async function soldAfter(shape: string, how: How, hook: string, act: Act): Promise<number> {
    const { dataSource, call } = await start(how, { [hook]: act });
    const work = async (manager: EntityManager): Promise<void> => {
      await stock.takeOne(manager);
      throw new Planned();
    };
    expect(await told(call(async () => SHAPES[shape]?.(dataSource, work)))).toBe(Planned.name);
    await dataSource.transaction((manager) => manager.query('SELECT 1'));
    return 100 - (await stock.quantity());
  }

  describe.each(Object.keys(SHAPES))('a transaction that fails %s', (shape) => {
    const FAILS: [hook: string, name: string, act: Act][] = [
      [
        'afterTransactionStart',
        'fails in a savepoint that it leaves open',
        async (runner) => {
          await stock.takeOne(runner.manager);
          await runner.startTransaction();
          throw new Planned();
        },
      ],
      [
        'beforeTransactionStart',
        'fails in a transaction that it leaves open',
        async (runner) => {
          await runner.startTransaction();
          await stock.takeOne(runner.manager);
          throw new Planned();
        },
      ],
      [
        'beforeTransactionRollback',
        'leaves a savepoint open',
        (runner) => runner.startTransaction(),
      ],
    ];

    it.each(FAILS)(
      'leaves nothing behind for the next one under a lock: %s %s [D88]',
      async (hook, _, act) => {
        expect(await soldAfter(shape, 'under a lock', hook, act)).toBe(0);
      },
    );

    // Even without a lock, a callback is always rolled back, and what is begun by hand ends with its query runner.
    const sure = shape === 'by hand' ? 'beforeTransactionStart' : 'beforeTransactionRollback';
    const asTypeOrm = FAILS.filter(([hook]) => hook !== sure);
    it.each(asTypeOrm)(
      'behaves as with TypeORM alone without a lock: %s %s',
      async (hook, _, act) => {
        const alone = await soldAfter(shape, 'with TypeORM alone', hook, act);
        await restock();
        expect(await soldAfter(shape, 'without a lock', hook, act)).toBe(alone);
      },
    );
  });

  it('a hook that begins the next transaction after a failed start keeps it', async () => {
    const { dataSource, call } = await start('under a lock', {
      afterTransactionStart: () => Promise.reject(new Planned()),
      afterTransactionRollback: (runner) => runner.startTransaction(),
    });
    await call(async () => {
      const runner = dataSource.createQueryRunner();
      expect(await told(runner.manager.transaction(async () => {}))).toBe(Planned.name);
      await stock.takeOne(runner.manager);
      await runner.commitTransaction();
      await runner.release();
    });
    expect(await stock.quantity()).toBe(99);
  });

  describeWithMariaDb('a hook at the start that ends the transaction on MariaDB', () => {
    const mariaDb = useMariaDb();
    const shop = useStock(mariaDb, 'mysql');

    it.each(['rollbackTransaction', 'commitTransaction'] as const)(
      'makes the start fail under a lock, and the next transaction begins: %s()',
      async (act) => {
        const { dataSource, call } = await start(
          'under a lock',
          { afterTransactionStart: (runner) => runner[act]() },
          'mysql',
          mariaDb,
        );
        const tried = await call(async () => {
          const runner = dataSource.createQueryRunner();
          const outcomes = [await told(sellOn(runner, shop)), await told(sellOn(runner, shop))];
          await runner.release();
          return outcomes;
        }, shop.key);
        expect(tried).toEqual([LockInTransactionError.name, 'done']);
        expect(await shop.quantity()).toBe(99);
      },
    );
  });
});

describe('hooks at the start that end the transaction', () => {
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

  /** What begins a transaction under the lock: a claim, time-outs alone, or nothing. */
  const OPTIONS = {
    'with the fence': { fence: true },
    'with time-outs': {},
    'with nothing': { transactionTimeouts: false },
  } as const;

  /** The hooks after the statement that begins the transaction. Each acts once. */
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

    /** Sells one piece. @param sql what the hook after the start sends the first time */
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
        'that releases the connection leaves no transaction open on it: %s',
        async (__, subscriber) => {
          const dataSource = lockAwareDataSource(await openDataSource(type, database.settings, 1));
          const { locks } = await startLocks(redis.url, { fence: true });
          dataSource.subscribers.push(subscriber(stock));
          const sale = locks.withLock(stock.key, () => open(dataSource, () => Promise.resolve()));
          await expect(sale).rejects.toThrow('released');
          dataSource.subscribers.length = 0;
          await dataSource.transaction((manager) => manager.query('SELECT 1')); // would commit what was left open
          expect([await stock.quantity(), await isHeld(redis.url, stock.key)]).toEqual([
            100,
            false,
          ]);
        },
      );
    });
  }

  describe('on PostgreSQL, a hook after the start', () => describeStart('postgres', usePostgres));

  describeWithMariaDb('on MariaDB, a hook after the start', () =>
    describeStart('mysql', useMariaDb),
  );
});

describe('hooks that end the transaction', () => {
  const redis = useRedis();

  type Type = 'postgres' | 'mysql';

  const FORMS: Record<string, OpensTransaction> = {
    'with a callback': withCallback,
    'by hand': byHand((runner) => runner.rollbackTransaction().catch(() => {})), // a hook may have done this
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

  function describeHooks(
    type: Type,
    database: TestDatabase,
    stock: Stock,
    endings = ENDINGS,
  ): void {
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

        it('that has sent a ROLLBACK can write nothing after it', async () => {
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
          await locks.withLock(stock.key, () =>
            open(dataSource, (runner) => stock.takeOne(runner)),
          );
          expect(await stock.quantity()).toBe(109);
        });
      });

      it('code of the application that keeps the COMMIT from the database: nothing is reported as committed', async () => {
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
            await queryRunner.query('BEGIN'); // the library cannot tell that this is another transaction
            await queryRunner.query('UPDATE stock SET quantity = 500 WHERE id = $1', [
              stock.product,
            ]);
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

    /** Creates a deadlock with another transaction, which has written more, so that it is not the victim. */
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
        await sleep(150); // MariaDB refreshes this table only if it was not read for 100 ms
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

      it('that swallows an error after which the database does not report the state: the call fails', async () => {
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

      it('that creates a table: the call fails, because it is unknown what that has committed', async () => {
        const { dataSource, locks } = await start((runner) =>
          runner.query('CREATE TABLE IF NOT EXISTS of_hook (id int)'),
        );
        const sale = locks.withLock(stock.key, () =>
          open(dataSource, (runner) => stock.takeOne(runner)),
        );
        await expect(sale).rejects.toBeInstanceOf(LockInTransactionError);
      });

      it('that swallows the refusal of its own COMMIT, and rolls back: the call fails', async () => {
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
      'that sends %s costs no further round trip',
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
        expect(after - before).toBe(own + 3); // the savepoint, the COMMIT and this query
      },
    );
  });
});

describe('hooks that release the query runner', () => {
  const redis = useRedis();

  const FORMS: [string, OpensTransaction][] = [
    ['with a callback', withCallback],
    ['by hand', byHand()],
  ];

  type Type = 'postgres' | 'mysql';
  type How = 'with TypeORM alone' | 'without a lock' | 'under a lock' | 'under a fenced lock';

  function describeHooks(type: Type, database: TestDatabase, stock: Stock): void {
    /** @returns the outcome of the sale, and the data source */
    async function sell(how: How, open: OpensTransaction): Promise<[unknown, DataSource]> {
      const plain = await openDataSource(type, database.settings, 1);
      const dataSource = how === 'with TypeORM alone' ? plain : lockAwareDataSource(plain);
      const { locks } = await startLocks(
        redis.url,
        how === 'under a fenced lock' ? { fence: {} } : {},
      );
      let calls = 0;
      dataSource.subscribers.push({
        beforeQuery: async ({ query, queryRunner }) => {
          if (query === 'START TRANSACTION' && calls++ === 0) await queryRunner.release();
        },
      });
      const sale = (): Promise<unknown> => open(dataSource, (runner) => stock.takeOne(runner));
      const told = await (how.startsWith('under') ? locks.withLock(stock.key, sale) : sale()).catch(
        (error: unknown) => (error as Error).constructor.name,
      );
      expect(await isHeld(redis.url, stock.key)).toBe(false);
      return [told, dataSource];
    }

    describe.each(FORMS)('of a transaction %s', (_, open) => {
      it.each<How>(['under a lock', 'under a fenced lock'])(
        'leaves nothing open on its connection, and the start fails: %s',
        async (how) => {
          const [told, dataSource] = await sell(how, open);
          expect(told).toBe(LockInTransactionError.name);
          await dataSource.query(`UPDATE stock SET quantity = 50 WHERE id = '${stock.product}'`);
          expect(await stock.quantity()).toBe(50); // as another connection sees it
        },
      );

      it('is reported as with TypeORM alone without a lock', async () => {
        const [alone] = await sell('with TypeORM alone', open);
        const [told] = await sell('without a lock', open);
        expect(told).toBe(alone);
      });
    });
  }

  describe('a hook that releases the query runner before its BEGIN is sent', () => {
    const postgres = usePostgres();
    describeHooks('postgres', postgres, useStock(postgres));
  });

  describeWithMariaDb(
    'a hook that releases the query runner before its BEGIN is sent, on MariaDB',
    () => {
      const mariaDb = useMariaDb();
      describeHooks('mysql', mariaDb, useStock(mariaDb, 'mysql'));
    },
  );
});
