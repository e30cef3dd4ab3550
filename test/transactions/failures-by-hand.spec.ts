import { describe, expect, it } from '@jest/globals';
import {
  LockCommitUnknownError,
  LockInTransactionError,
  LockLostError,
  type LockService,
} from 'nestjs-locked';
import { lockAwareDataSource } from 'nestjs-locked/typeorm';
import type { DataSource, EntitySubscriberInterface, QueryRunner } from 'typeorm';
import type { EventEmitter } from 'node:events';
import { type TestDatabase, useMariaDb, usePostgres } from '../support/databases.js';
import { describeWithMariaDb } from '../support/describe-if.js';
import { eventually } from '../support/eventually.js';
import { makeGate } from '../support/gate.js';
import { useRedis } from '../support/shared-redis.js';
import { openDataSource } from './data-source.js';
import { isHeld, startLocks } from './locks.js';
import { createSlowCommitTable, killCommits, whenCommitting } from './slow-commit.js';
import { type Stock, useStock } from './stock.js';

describe('a connection dies', () => {
  const redis = useRedis();
  const postgres = usePostgres();
  const stock = useStock(postgres);

  type Work = (runner: QueryRunner) => Promise<unknown>;

  /** A transaction as it is often written: a query runner that TypeORM has released itself is left alone. */
  async function transact(dataSource: DataSource, work: Work): Promise<void> {
    const runner = dataSource.createQueryRunner();
    try {
      await runner.startTransaction();
      await work(runner);
      await runner.commitTransaction();
    } catch (error) {
      if (!runner.isReleased) await runner.rollbackTransaction();
      throw error;
    } finally {
      if (!runner.isReleased) await runner.release();
    }
  }

  /** Terminates the connection on the server, as an idle time-out does. */
  async function kill(runner: QueryRunner, pid = pidOf(runner)): Promise<void> {
    await postgres.query('SELECT pg_terminate_backend($1::int)', [await pid]);
    await eventually(() => expect(runner.isReleased).toBe(true));
  }

  async function pidOf(runner: QueryRunner): Promise<number | undefined> {
    const [row] = (await runner.query('SELECT pg_backend_pid() AS pid')) as { pid: number }[];
    return row?.pid;
  }

  /** Like `kill`, but sends no statement on the query runner first. */
  async function killUnseen(runner: QueryRunner): Promise<void> {
    await postgres.query(
      `SELECT pg_terminate_backend(pid) FROM pg_stat_activity
     WHERE state = 'idle in transaction' AND datname = current_database()`,
    );
    await eventually(() => expect(runner.isReleased).toBe(true));
  }

  async function killOnMariaDb(database: TestDatabase, runner: QueryRunner): Promise<void> {
    const [row] = (await runner.query('SELECT CONNECTION_ID() AS id')) as { id: number }[];
    const connection = (await runner.connect()) as EventEmitter;
    const ended = new Promise((resolve) => connection.once('error', resolve));
    await database.query(`KILL CONNECTION ${Number(row?.id)}`);
    await ended;
  }

  /** Runs the work in a nested transaction. */
  const nested =
    (work: Work): Work =>
    async (runner) => {
      await runner.startTransaction();
      try {
        await work(runner);
        await runner.commitTransaction();
      } catch (error) {
        if (!runner.isReleased) await runner.rollbackTransaction();
        throw error;
      }
    };

  /** Loses its connection in the first run. */
  const dyingOnce = (die: Work, sell: Work): Work => {
    let hasDied = false;
    return async (runner) => {
      if (!hasDied) await die(runner);
      hasDied = true;
      await sell(runner);
    };
  };

  const state = async (of: Stock = stock): Promise<unknown> => [
    await isHeld(redis.url, of.key),
    await of.quantity(),
  ];

  interface Started {
    readonly dataSource: DataSource;
    readonly locks: LockService;
  }

  async function start(
    fence = true,
    subscriber: EntitySubscriberInterface = {},
    leaseMs = 30_000,
  ): Promise<Started> {
    const dataSource = lockAwareDataSource(await openDataSource('postgres', postgres.settings));
    dataSource.subscribers.push(subscriber);
    return { dataSource, locks: (await startLocks(redis.url, { fence, leaseMs })).locks };
  }

  const sell: Work = (runner) => stock.takeOne(runner);
  /** The statement with which the gate checks the transaction. */
  const LAST_LOOK = /'inside'/;
  const BY_FENCE = [
    ['with the fence', true],
    ['without the fence', false],
  ] as const;

  describe('a connection that dies in a transaction driven manually', () => {
    it.each(BY_FENCE)('ends its lock, %s', async (_, fence) => {
      const { dataSource, locks } = await start(fence);
      const sale = locks.withLock(stock.key, () => transact(dataSource, dyingOnce(kill, sell)));
      await expect(sale).rejects.toThrow(/already released/);
      expect(await state()).toEqual([false, 100]);
    });

    it.each(BY_FENCE)('lets its call try once more, %s', async (_, fence) => {
      const { dataSource, locks } = await start(fence);
      const work = dyingOnce(kill, sell);
      await locks.withLock(stock.key, async () => {
        await expect(transact(dataSource, work)).rejects.toThrow(/already released/);
        await transact(dataSource, work);
      });
      expect(await state()).toEqual([false, 99]);
    });

    it('ends its lock if that happens in a nested transaction', async () => {
      const { dataSource, locks } = await start();
      const work = dyingOnce(kill, sell);
      const sale = locks.withLock(stock.key, () => transact(dataSource, nested(work)));
      await expect(sale).rejects.toThrow(/already released/);
      expect(await state()).toEqual([false, 100]);
    });

    it.each(BY_FENCE)('ends its lock if that happens while it begins, %s', async (_, fence) => {
      const { dataSource, locks } = await start(fence, {
        afterTransactionStart: ({ queryRunner }) => kill(queryRunner),
      });
      const sale = locks.withLock(stock.key, () => transact(dataSource, sell));
      await expect(sale).rejects.toThrow();
      expect(await state()).toEqual([false, 100]);
    });

    it('ends its lock if that happens while the gate asks the database', async () => {
      let hasAsked = false;
      const subscriber: EntitySubscriberInterface = {
        beforeQuery: async ({ query, queryRunner }) => {
          if (hasAsked || !LAST_LOOK.test(query)) return;
          hasAsked = true;
          await kill(queryRunner);
        },
      };
      const { dataSource, locks } = await start(true, subscriber, 3_000);
      const sale = locks.withLock(stock.key, () =>
        transact(dataSource, async (runner) => {
          // The gate sends that statement only if the transaction is older than its idle time-out.
          for (let i = 0; i < 5; i++) await runner.query('SELECT pg_sleep(0.2)');
        }),
      );
      await expect(sale).rejects.toThrow();
      expect(await state()).toEqual([false, 100]);
    });

    it('ends its lock if that happens in a hook before its COMMIT', async () => {
      const { dataSource, locks } = await start(true, {
        beforeTransactionCommit: ({ queryRunner }) => kill(queryRunner),
      });
      const sale = locks.withLock(stock.key, () => transact(dataSource, sell));
      await expect(sale).rejects.toThrow(/already released/);
      expect(await state()).toEqual([false, 100]);
    });

    it('ends its lock if that happens after a COMMIT that was not sent', async () => {
      const other = `other:${stock.key}`;
      let lose: () => Promise<unknown> = () => Promise.resolve();
      const { dataSource, locks } = await start(true, {
        beforeQuery: ({ query }) => (query === 'COMMIT' ? lose() : undefined),
      });
      const sale = locks.withLock([stock.key, other], async (lock) => {
        lose = async () => {
          await locks.forceRelease(other);
          await eventually(() => expect(lock.isHeld).toBe(false));
        };
        const runner = dataSource.createQueryRunner();
        await runner.startTransaction();
        const pid = pidOf(runner);
        await sell(runner);
        const error = await runner.commitTransaction().catch((refused: unknown) => refused);
        await kill(runner, pid);
        return error;
      });
      await expect(sale).resolves.toBeInstanceOf(LockLostError);
      expect(await state()).toEqual([false, 100]);
    });

    it('ends its lock if that happens to the next transaction, opened by a hook after the COMMIT', async () => {
      let commits = 0;
      const { dataSource, locks } = await start(true, {
        afterTransactionCommit: async ({ queryRunner }) => {
          if (++commits > 1) return;
          await queryRunner.startTransaction();
          await kill(queryRunner);
        },
      });
      await locks.withLock(stock.key, () => transact(dataSource, sell));
      expect(await state()).toEqual([false, 99]);
    });

    it('puts a COMMIT in flight in doubt', async () => {
      await createSlowCommitTable(postgres);
      const { dataSource, locks } = await start();
      const sale = locks.withLock(stock.key, () =>
        transact(dataSource, (runner) => runner.query('INSERT INTO slow VALUES (1)')),
      );
      await Promise.all([
        expect(sale).rejects.toBeInstanceOf(LockCommitUnknownError),
        killCommits(postgres),
      ]);
      expect(await isHeld(redis.url, stock.key)).toBe(true);
    });

    it('changes nothing after its COMMIT', async () => {
      const { dataSource, locks } = await start();
      await locks.withLock(stock.key, async () => {
        const runner = dataSource.createQueryRunner();
        await runner.startTransaction();
        await sell(runner);
        await runner.commitTransaction();
        await kill(runner);
        await transact(dataSource, sell);
      });
      expect(await state()).toEqual([false, 98]);
    });

    it('ends its lock even if the query runner begins once more', async () => {
      const { dataSource, locks } = await start();
      const sale = locks.withLock(stock.key, async () => {
        const runner = dataSource.createQueryRunner();
        await runner.startTransaction();
        await kill(runner);
        await runner.startTransaction();
      });
      await expect(sale).rejects.toThrow(/already released/);
      expect(await state()).toEqual([false, 100]);
    });

    it('with a callback, lets its call try once more', async () => {
      const { dataSource, locks } = await start();
      const work = dyingOnce(kill, sell);
      const once = (): Promise<unknown> =>
        dataSource.transaction(({ queryRunner }) => work(queryRunner as QueryRunner));
      await locks.withLock(stock.key, async () => {
        await expect(once()).rejects.toThrow(/already released/);
        await once();
      });
      expect(await state()).toEqual([false, 99]);
    });
  });

  it('a nested transaction with a callback reports that its connection has died', async () => {
    const { dataSource, locks } = await start();
    const sale = locks.withLock(stock.key, async () => {
      const runner = dataSource.createQueryRunner();
      await runner.startTransaction();
      await runner.manager.transaction(async () => {
        await killUnseen(runner);
        await sell(runner).catch(() => {});
      });
    });
    await expect(sale).rejects.toThrow(/already released/);
    expect(await state()).toEqual([false, 100]);
  });

  describe('a connection that dies when a nested transaction was the last that was committed', () => {
    const half: Work = async (runner) => {
      await sell(runner);
      await nested(sell)(runner);
    };

    it('makes a call fail whose code does not notice it', async () => {
      const { dataSource, locks } = await start();
      const sale = locks.withLock(stock.key, async () => {
        const runner = dataSource.createQueryRunner();
        await runner.startTransaction();
        await half(runner);
        await killUnseen(runner);
      });
      await expect(sale).rejects.toBeInstanceOf(LockInTransactionError);
      expect(await state()).toEqual([false, 100]);
    });

    it.each<[string, Work]>([
      ['by its next statement', sell],
      ['by its COMMIT', () => Promise.resolve()],
    ])(
      'does not make the call fail if its code learns of it %s, and tries once more',
      async (_, last) => {
        const { dataSource, locks } = await start();
        const work = dyingOnce(
          async (runner) => {
            await half(runner);
            await killUnseen(runner);
          },
          (runner) => last(runner),
        );
        await locks.withLock(stock.key, async () => {
          await expect(transact(dataSource, work)).rejects.toThrow(/already released/);
          await transact(dataSource, sell);
        });
        expect(await state()).toEqual([false, 99]);
      },
    );
  });

  describeWithMariaDb('on MariaDB, where TypeORM leaves the query runner to its code', () => {
    const mariaDb = useMariaDb();
    const shop = useStock(mariaDb, 'mysql');
    const sellThere: Work = (runner) => shop.takeOne(runner);
    const work = (): Work => dyingOnce((runner) => killOnMariaDb(mariaDb, runner), sellThere);

    it.each([
      ['the transaction', (inner: Work) => inner],
      ['a nested one', nested],
    ])('a connection that dies in %s ends its lock', async (_, around) => {
      const dataSource = lockAwareDataSource(await openDataSource('mysql', mariaDb.settings));
      const { locks } = await startLocks(redis.url, { fence: true });
      const selling = around(work());
      await locks.withLock(shop.key, async () => {
        await expect(transact(dataSource, selling)).rejects.toThrow(/closed state/);
        await transact(dataSource, selling);
      });
      expect(await state(shop)).toEqual([false, 99]);
    });

    const startThere = async (fence = true, subscriber: EntitySubscriberInterface = {}) => {
      const dataSource = lockAwareDataSource(await openDataSource('mysql', mariaDb.settings));
      dataSource.subscribers.push(subscriber);
      return { dataSource, locks: (await startLocks(redis.url, { fence })).locks };
    };
    const die = (runner: QueryRunner): Promise<void> => killOnMariaDb(mariaDb, runner);

    it.each(BY_FENCE)('ends its lock although its code does not end it, %s', async (_, fence) => {
      const { dataSource, locks } = await startThere(fence);
      await locks.withLock(shop.key, async () => {
        const runner = dataSource.createQueryRunner();
        await runner.startTransaction();
        await sellThere(runner);
        await die(runner);
      });
      expect(await state(shop)).toEqual([false, 100]);
    });

    it.each<[string, EntitySubscriberInterface]>([
      ['before its COMMIT', { beforeTransactionCommit: ({ queryRunner }) => die(queryRunner) }],
      [
        'while the gate asks the database',
        {
          beforeQuery: ({ query, queryRunner }) =>
            query.startsWith('RELEASE') ? die(queryRunner) : undefined,
        },
      ],
    ])('ends its lock although its code does not end it, %s', async (_, subscriber) => {
      const { dataSource, locks } = await startThere(false, subscriber);
      await locks.withLock(shop.key, async () => {
        const runner = dataSource.createQueryRunner();
        await runner.startTransaction();
        await runner.commitTransaction().catch(() => {});
      });
      expect(await state(shop)).toEqual([false, 100]);
    });

    const fail = async (runner: QueryRunner, fatal: boolean): Promise<void> => {
      const connection = (await runner.connect()) as EventEmitter;
      connection.emit('error', Object.assign(new Error('unexpected'), { fatal }));
    };

    it('accepts nothing more after an error that its driver calls fatal', async () => {
      const { dataSource, locks } = await startThere();
      const sale = locks.withLock(shop.key, () =>
        transact(dataSource, async (runner) => {
          await fail(runner, true);
          await sellThere(runner);
        }),
      );
      await expect(sale).rejects.toThrow(/closed state/);
      expect(await state(shop)).toEqual([false, 100]);
    });

    it('continues after another error', async () => {
      const { dataSource, locks } = await startThere();
      await locks.withLock(shop.key, () =>
        transact(dataSource, async (runner) => {
          await fail(runner, false);
          expect(await isHeld(redis.url, shop.key)).toBe(true);
          await sellThere(runner);
          await locks.forceRelease(shop.key);
        }).catch((error: unknown) => expect(error).toBeInstanceOf(LockLostError)),
      );
      expect(await shop.quantity()).toBe(100);
    });
  });
});

describe('a COMMIT fails', () => {
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
    ])('accepts nothing after $statements', async ({ statements, told: expected }) => {
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

    it('accepts nothing more if its lock was lost meanwhile', async () => {
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

    it('accepts nothing before its rollback if the database has refused the COMMIT', async () => {
      const { runner, locks } = await start('postgres', database, {});
      await database.query(
        'CREATE TABLE sales (product text UNIQUE DEFERRABLE INITIALLY DEFERRED)',
      );
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

    it('has ended, and its lock with it, if a hook after the COMMIT throws', async () => {
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
      'keeps the lock until its call ends if it is committed again, and ended by %s()',
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
      'is not committed if its lock was lost meanwhile, %s',
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

    it('is not committed by anybody after a COMMIT that was refused without being executed', async () => {
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
      // The pool hands out the same connection again.
      await dataSource.transaction((manager) => manager.query('SELECT 1'));
      expect(await stock.quantity()).toBe(100);
    });

    it.each(['COMMIT nothing', 'START TRANSACTION nothing'])(
      'is not committed by anybody after %s of a hook, which was not understood',
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
        await dataSource.transaction((manager) => manager.query('SELECT 1')); // would commit what was left open
        expect(await stock.quantity()).toBe(100);
      },
    );

    it('is not committed again if a statement has ended the transaction meanwhile', async () => {
      const { runner, locks } = await start('mysql', database, failing());
      const again = await locks.withLock(stock.key, async () => {
        await runner.startTransaction();
        await told(runner.commitTransaction());
        await runner.query('CREATE TABLE made (id int)'); // commits implicitly
        const refused = await told(runner.commitTransaction());
        await runner.rollbackTransaction();
        return refused;
      });
      expect(again).toEqual(REFUSED);
      await runner.release();
    });
  });
});

describe('statements come late', () => {
  const redis = useRedis();

  type Hook = `${'before' | 'after'}Transaction${'Commit' | 'Rollback'}`;

  function describeBranches(
    type: 'postgres' | 'mysql',
    useDatabase: typeof usePostgres | typeof useMariaDb,
  ): void {
    const database = useDatabase();
    const stock = useStock(database, type);
    const add = (runner: QueryRunner): Promise<unknown> =>
      runner.query(`UPDATE stock SET quantity = quantity + 1000 WHERE id = '${stock.product}'`);

    /**
     * Takes one piece in a transaction, starts a branch that it does not await, and ends the transaction.
     *
     * @param hook the TypeORM hook in which the branch continues
     * @param act what the hook itself does
     * @returns the outcome of the branch
     */
    const transaction = async (
      hook: Hook,
      ways: { readonly locked: boolean; readonly act?: (runner: QueryRunner) => Promise<unknown> },
    ): Promise<unknown> => {
      const dataSource = lockAwareDataSource(await openDataSource(type, database.settings, 1));
      const { locks } = await startLocks(redis.url, { fence: true });
      const { opened: goesOn, open: goOn } = makeGate();
      let branch: Promise<unknown> | undefined;
      dataSource.subscribers.push({
        [hook]: async ({ queryRunner }: { queryRunner: QueryRunner }) => {
          await ways.act?.(queryRunner);
          goOn();
          await branch;
        },
      });
      const sell = async (): Promise<void> => {
        const runner = dataSource.createQueryRunner();
        await runner.startTransaction();
        await stock.takeOne(runner.manager);
        branch = goesOn
          .then(() => add(runner))
          .then(
            () => 'done',
            (error: unknown) => error,
          );
        await (hook.endsWith('Commit') ? runner.commitTransaction() : runner.rollbackTransaction());
        await runner.release();
      };
      await (ways.locked ? locks.withLock(stock.key, sell) : sell());
      expect(await isHeld(redis.url, stock.key)).toBe(false);
      return branch;
    };

    it.each<[Hook, number]>([
      ['beforeTransactionCommit', 99],
      ['afterTransactionCommit', 99],
      ['beforeTransactionRollback', 100],
      ['afterTransactionRollback', 100],
    ])('sends nothing under a lock in %s', async (hook, left) => {
      const told = await transaction(hook, { locked: true });
      expect(told).toBeInstanceOf(LockInTransactionError);
      expect(await stock.quantity()).toBe(left);
    });

    it.each<[Hook, number]>([
      ['afterTransactionCommit', 1099],
      ['afterTransactionRollback', 1100],
    ])('sends without a lock in %s the same as without the library', async (hook, left) => {
      expect(await transaction(hook, { locked: false })).toBe('done');
      expect(await stock.quantity()).toBe(left);
    });

    it.each<[Hook, number]>([
      ['beforeTransactionCommit', 1099],
      ['afterTransactionCommit', 1099],
      ['afterTransactionRollback', 1100],
    ])('does not keep %s itself from sending', async (hook, left) => {
      await transaction(hook, { locked: true, act: add });
      expect(await stock.quantity()).toBe(left);
    });
  }

  describe('a branch that nobody awaits, of a query runner driven manually, on PostgreSQL', () =>
    describeBranches('postgres', usePostgres));

  describeWithMariaDb('the same on MariaDB', () => describeBranches('mysql', useMariaDb));
});
