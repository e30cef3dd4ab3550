import { describe, expect, it } from '@jest/globals';
import { createPool } from 'mysql2/promise';
import {
  type Lock,
  LockCommitUnknownError,
  LockConfigError,
  LockInTransactionError,
  type LockService,
} from 'nestjs-locked';
import { TestLocks } from 'nestjs-locked/testing';
import { lockAwareTransactions, type TransactionGiven } from 'nestjs-locked/transactions';
import { lockAwareDataSource } from 'nestjs-locked/typeorm';
import pg, { Pool, type PoolClient, type QueryResultRow } from 'pg';
import postgres, { type TransactionSql } from 'postgres';
import { Sequelize, type Transaction } from 'sequelize';
import type { DataSource, EntitySubscriberInterface } from 'typeorm';
import { setImmediate as nextTurn, setTimeout as sleep } from 'node:timers/promises';
import { afterTest } from '../support/after-test.js';
import { useMariaDb, usePostgres } from '../support/databases.js';
import { describeWithMariaDb } from '../support/describe-if.js';
import { makeGate } from '../support/gate.js';
import { lazy } from '../support/lazy.js';
import { useRedis } from '../support/shared-redis.js';
import { uniqueKey } from '../support/unique-key.js';
import { openDataSource } from './data-source.js';
import { isHeld, startLocks } from './locks.js';
import { mysql2Transactions } from './mysql2-transactions.js';
import { inPgTransaction } from './pg-transaction.js';
import { useStock } from './stock.js';

describe('lockAwareTransactions', () => {
  it('fails if a transaction ran without a wrapped body', async () => {
    const run = lockAwareTransactions({ dialect: 'postgres' });
    const sale = run(async () => 'committed');
    await expect(sale).rejects.toBeInstanceOf(LockConfigError);
    await expect(sale).rejects.toThrow(/wrap\(tx, body\)/);
  });

  it('does not change the error of a transaction that could not be opened', async () => {
    const run = lockAwareTransactions({ dialect: 'postgres' });
    const refused = new Error('too many connections');
    await expect(run(() => Promise.reject(refused))).rejects.toBe(refused);
  });

  it.each([
    ['an unknown dialect', () => lockAwareTransactions({ dialect: 'oracle' as never }), ''],
    [
      'no function',
      () => lockAwareTransactions()('BEGIN' as never),
      'is run by a function that opens it, and not a string; write run(async (wrap) => { … })',
    ],
  ])('refuses %s', (_, call, message) => {
    expect(call).toThrow(LockConfigError);
    expect(call).toThrow(message);
  });

  it.each<[unknown, string]>([
    [null, 'Invalid options: null must be an object'],
    [{ conectionName: 'a' }, "Unknown option 'conectionName': did you mean 'connectionName'?"],
    [{ connectionName: 5 }, 'Invalid option connectionName: 5 must be a string'],
    [
      { connect() {} },
      'lockAwareTransactions takes options, and not an object; pass a pool as one: { dialect, pool }',
    ],
    [{ query: 'SELECT' }, "Invalid option query: 'SELECT' must be a function"],
    [{ pool: 'postgres://a' }, "Invalid option pool: 'postgres://a' must be a pool of node-postgr"],
    [{ pool: null }, 'Invalid option pool: null must be a pool of node-postgres, or a Sequelize'],
    [{ survivesDisconnect: 'no' }, "Invalid option survivesDisconnect: 'no' must be true or false"],
  ])('refuses %j as options', (options, message) => {
    const make = (): unknown => lockAwareTransactions(options as never);
    expect(make).toThrow(LockConfigError);
    expect(make).toThrow(message);
  });

  it.each<[unknown, string]>([
    [null, 'Invalid options: null must be an object'],
    [
      { isolationLevel: 'a' },
      "Unknown option 'isolationLevel': leave it out, or write one of isolation, timeoutMs",
    ],
    [{ isolation: 5 }, 'Invalid option isolation: 5 must be the name of a level'],
    [
      { timeoutMs: '5' },
      "Invalid option timeoutMs: '5' must be a number of milliseconds, 0 or more",
    ],
  ])('refuses %j for one transaction, before it is opened', (given, message) => {
    let isOpened = false;
    const run = lockAwareTransactions({ dialect: 'postgres' });
    const open = async (): Promise<void> => void (isOpened = true);
    const call = (): unknown => run(open, given as never);
    expect(call).toThrow(LockConfigError);
    expect(call).toThrow(message);
    expect(isOpened).toBe(false);
  });

  it('guards the result of its body, even if it begins only when it is awaited', async () => {
    const locks = new TestLocks().service();
    const run = lockAwareTransactions<object>({ dialect: 'postgres' });
    const asking = lazy(() => locks.withLock('key', () => 'granted'));
    const refused = run<string>((wrap) => wrap({}, () => asking));
    await expect(refused).rejects.toBeInstanceOf(LockInTransactionError);
  });

  it('refuses a body that is not a function', async () => {
    const run = lockAwareTransactions({ dialect: 'postgres' });
    const failing = run((wrap) => wrap({}, undefined as never));
    await expect(failing).rejects.toBeInstanceOf(LockConfigError);
    await expect(failing).rejects.toThrow('must be a function; write wrap(tx, (tx) => …)');
  });

  it.each([undefined, null, 'tx'])('refuses %j as a transaction', async (tx) => {
    const run = lockAwareTransactions({ dialect: 'postgres' });
    const failing = run((wrap) => wrap(tx as never, async () => {}));
    await expect(failing).rejects.toBeInstanceOf(LockConfigError);
    await expect(failing).rejects.toThrow('must be an object; write wrap(tx, (tx) => …)');
  });
});

/** Once a transaction has ended, nothing runs it again; its caller learns its outcome. */
describe('a transaction is committed once', () => {
  const redis = useRedis();
  const postgres = usePostgres();
  const stock = useStock(postgres);

  /**
   * Begins a second transaction, which outlives the outer one and requests a lock until it learns how the outer one
   * ended.
   */
  async function straggle(dataSource: DataSource, locks: LockService) {
    const begun = makeGate();
    const sold = makeGate();
    const straggler = dataSource.transaction(async () => {
      begun.open();
      await sold.opened;
      for (;;) {
        const { message } = await locks
          .withLock(uniqueKey('late'), () => new Error('it ran'))
          .catch((error: Error) => error);
        if (!/is being (committed|rolled back)/.test(message)) return message;
        await nextTurn();
      }
    });
    const answer = straggler.catch((error: Error) => error.message);
    await begun.opened;
    return { sold, answer };
  }

  it.each([
    ['restart', 'a hook that fails'],
    ['restart', 'a hook'],
    ['join', 'a hook that fails'],
    ['join', 'a hook'],
  ] as const)(
    'Code that requests a lock after the COMMIT repeats nothing, nor does it free the key (%s, %s)',
    async (insideTransaction, hook) => {
      const dataSource = lockAwareDataSource(await openDataSource('postgres', postgres.settings));
      const { locks } = await startLocks(redis.url, { insideTransaction: 'restart' });
      const options = { insideTransaction, holdAtLeastMs: 60_000 };
      let runs = 0;
      let straggling: Awaited<ReturnType<typeof straggle>> | undefined;
      let hasSold = false;
      dataSource.subscribers.push({
        async afterTransactionCommit() {
          if (!hasSold) return;
          hasSold = false;
          straggling?.sold.open();
          // The ORM needs further round trips, while the code left behind keeps requesting a lock.
          await sleep(50);
          if (hook === 'a hook that fails') throw new Error('behind the COMMIT');
        },
      } as never);
      const sale = dataSource.transaction(async (manager) => {
        runs++;
        const joined = { insideTransaction: 'join' } as const;
        await locks.withLock(uniqueKey('joined'), joined, () => {});
        await locks.withLock(stock.key, options, () => stock.takeOne(manager));
        straggling ??= await straggle(dataSource, locks);
        hasSold = true;
      });
      const told = await sale.catch((error: Error) => error.message);
      expect(told).toBe(hook === 'a hook that fails' ? 'behind the COMMIT' : undefined);
      expect(await straggling?.answer).toMatch(/cannot be restarted, because .* has ended already/);
      expect([runs, await stock.quantity()]).toEqual([insideTransaction === 'join' ? 1 : 2, 99]);
      expect(await isHeld(redis.url, stock.key)).toBe(true);
    },
  );

  it.each(['restart', 'join'] as const)(
    'Code that requests a lock after the ROLLBACK repeats nothing, and the caller gets the error (%s)',
    async (insideTransaction) => {
      const dataSource = lockAwareDataSource(await openDataSource('postgres', postgres.settings));
      const { locks } = await startLocks(redis.url, { insideTransaction: 'restart' });
      let runs = 0;
      let straggling: Awaited<ReturnType<typeof straggle>> | undefined;
      dataSource.subscribers.push({
        async afterTransactionRollback() {
          if (straggling === undefined) return;
          straggling.sold.open();
          await sleep(50);
        },
      } as never);
      const sale = dataSource.transaction(async (manager) => {
        runs++;
        await locks.withLock(uniqueKey('joined'), { insideTransaction: 'join' }, () => {});
        await locks.withLock(stock.key, { insideTransaction }, () => stock.takeOne(manager));
        straggling ??= await straggle(dataSource, locks);
        throw new Error('no credit');
      });
      await expect(sale).rejects.toThrow('no credit');
      expect(await straggling?.answer).toMatch(/cannot be restarted, because .* has ended already/);
      expect([runs, await stock.quantity()]).toEqual([insideTransaction === 'join' ? 1 : 2, 100]);
    },
  );

  /** Begins a third transaction in a second one, which ends at once. */
  async function beginThird(dataSource: DataSource, work: () => Promise<unknown>) {
    const mayWork = makeGate();
    const { working } = await dataSource.transaction(async () => {
      const begun = makeGate();
      const third = dataSource.transaction(async () => {
        begun.open();
        await mayWork.opened;
        return work();
      });
      third.catch(() => {});
      await begun.opened;
      return { working: third };
    });
    return { working, mayWork };
  }

  it('Code that has outlived only a second transaction makes the first one run again', async () => {
    const dataSource = lockAwareDataSource(await openDataSource('postgres', postgres.settings));
    const { locks } = await startLocks(redis.url, { insideTransaction: 'restart' });
    const late = uniqueKey('late');
    let runs = 0;
    await dataSource.transaction(async (manager) => {
      runs++;
      await locks.withLock(uniqueKey('joined'), { insideTransaction: 'join' }, () => {});
      const { working, mayWork } = await beginThird(dataSource, () =>
        locks.withLock(late, () => stock.takeOne(manager)),
      );
      mayWork.open();
      await working;
    });
    expect([runs, await stock.quantity()]).toEqual([2, 99]);
  });

  it.each(['COMMIT', 'ROLLBACK'])(
    'Code that requests a lock at the %s repeats nothing, although a second transaction between has ended',
    async (end) => {
      const dataSource = lockAwareDataSource(await openDataSource('postgres', postgres.settings));
      const { locks } = await startLocks(redis.url, { insideTransaction: 'restart' });
      let third: Awaited<ReturnType<typeof beginThird>> | undefined;
      const ending = async (): Promise<void> => {
        const asking = third;
        third = undefined;
        if (asking === undefined) return;
        asking.mayWork.open();
        await asking.working.catch(() => {});
        throw new Error('behind the end');
      };
      dataSource.subscribers.push({
        afterTransactionCommit: ending,
        afterTransactionRollback: ending,
      } as never);
      let runs = 0;
      const sale = dataSource.transaction(async (manager) => {
        if (runs++ > 0) return;
        await locks.withLock(uniqueKey('joined'), { insideTransaction: 'join' }, () =>
          stock.takeOne(manager),
        );
        const begun = await beginThird(dataSource, () =>
          locks.withLock(uniqueKey('late'), () => {}),
        );
        third = begun;
        if (end === 'ROLLBACK') throw new Error('no credit');
      });
      await expect(sale).rejects.toThrow(end === 'COMMIT' ? 'behind the end' : 'no credit');
      expect([runs, await stock.quantity()]).toEqual([1, end === 'COMMIT' ? 99 : 100]);
    },
  );

  it('A key that is taken after the end of a second transaction is kept until the first has ended', async () => {
    const dataSource = lockAwareDataSource(await openDataSource('postgres', postgres.settings, 12));
    const { locks } = await startLocks(redis.url, { insideTransaction: 'join' });
    const sell = (): Promise<void> =>
      dataSource.transaction(async (manager) => {
        const { working, mayWork } = await beginThird(dataSource, () =>
          locks.withLock(stock.key, { waitMs: 10_000 }, () => stock.takeOne(manager)),
        );
        mayWork.open();
        await working;
        await sleep(50);
      });
    await Promise.all([sell(), sell(), sell()]);
    expect(await stock.quantity()).toBe(97);
  });
});

/** An opener may retry, or open another transaction. Work that may have been committed is not repeated. */
describe('an opener that tries again', () => {
  const redis = useRedis();
  const database = usePostgres();
  const stock = useStock(database);

  describe('an opener that tries again', () => {
    const start = async () => {
      const sql = postgres(database.url, { max: 1, onnotice: () => {} });
      afterTest(() => sql.end({ timeout: 0 }));
      const run = lockAwareTransactions<TransactionSql>({
        dialect: 'postgres',
        query: (tx, text, params) => tx.unsafe(text, params as never),
        survivesDisconnect: false,
      });
      const { locks } = await startLocks(redis.url);
      let runs = 0;
      const takeOne = async (tx: TransactionSql): Promise<void> => {
        runs++;
        await stock.takeOne({ query: (text, params: string[]) => tx.unsafe(text, params) });
      };
      return { sql, run, locks, takeOne, runs: () => runs };
    };

    it('is refused where its COMMIT is not seen, which may have been executed', async () => {
      const { sql, run, locks, takeOne, runs } = await start();
      const sale = locks.withLock(stock.key, () =>
        run(async (wrap) => {
          await sql.begin((tx) => wrap(tx, takeOne)); // as if its reply had been lost
          await sql.begin((tx) => wrap(tx, takeOne));
        }),
      );
      await expect(sale).rejects.toBeInstanceOf(LockCommitUnknownError);
      expect([runs(), await stock.quantity()]).toEqual([1, 99]);
    });

    it('continues after a body that has failed', async () => {
      const { sql, run, locks, takeOne, runs } = await start();
      const failing = async (tx: TransactionSql): Promise<never> => {
        await takeOne(tx);
        throw new Error('no credit');
      };
      await locks.withLock(stock.key, () =>
        run<unknown>(async (wrap) => {
          await sql.begin((tx) => wrap(tx, failing)).catch(() => {});
          return sql.begin((tx) => wrap(tx, takeOne));
        }),
      );
      expect([runs(), await stock.quantity()]).toEqual([2, 99]);
    });

    it('continues under no lock, as without the library', async () => {
      const { sql, run, takeOne, runs } = await start();
      await run(async (wrap) => {
        await sql.begin((tx) => wrap(tx, takeOne));
        await sql.begin((tx) => wrap(tx, takeOne));
      });
      expect([runs(), await stock.quantity()]).toEqual([2, 98]);
    });

    it('does not make the first one run again for a lock of the second, where its COMMIT is not seen', async () => {
      const { sql, run, locks, takeOne, runs } = await start();
      const options = { insideTransaction: 'restart' } as const;
      const sale = run(async (wrap) => {
        await sql.begin((tx) => wrap(tx, takeOne));
        await sql.begin((tx) =>
          wrap(tx, (given) => locks.withLock(uniqueKey('late'), options, () => takeOne(given))),
        );
      });
      await expect(sale).rejects.toBeInstanceOf(LockInTransactionError);
      await expect(sale).rejects.toThrow(/call run\(…\) once for each transaction/);
      expect([runs(), await stock.quantity()]).toEqual([1, 99]);
    });
  });

  it.each(['under no lock', 'under a lock'])(
    'Code that opens two transactions %s does not make the first one run again for a lock of the second',
    async (where) => {
      const pool = new Pool({ connectionString: database.url });
      afterTest(() => pool.end());
      const run = lockAwareTransactions<PoolClient>({ dialect: 'postgres', pool });
      const { locks } = await startLocks(redis.url, { insideTransaction: 'restart' });
      const takeOne = (tx: PoolClient): Promise<void> =>
        stock.takeOne({
          query: async (text, params: string[]) =>
            (await tx.query<QueryResultRow>(text, params)).rows,
        });
      const sell = (): Promise<void> =>
        run<void>(async (wrap) => {
          await inPgTransaction(pool, (client) => wrap(client, takeOne));
          await inPgTransaction(pool, (client) =>
            wrap(client, (tx) => locks.withLock(uniqueKey('late'), () => takeOne(tx))),
          );
        });
      const sale = where === 'under a lock' ? locks.withLock(stock.key, sell) : sell();
      await expect(sale).rejects.toBeInstanceOf(LockInTransactionError);
      await expect(sale).rejects.toThrow(/call run\(…\) once for each transaction/);
      expect(await stock.quantity()).toBe(99);
    },
  );
});

describe('an isolation level for one transaction', () => {
  const SESSION = 'SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED';
  const ONCE = 'SET TRANSACTION ISOLATION LEVEL REPEATABLE READ';

  /** Runs two sales at a time, which read before the lock. @returns the errors of those that failed */
  async function bothSell(sell: () => Promise<unknown>): Promise<unknown[]> {
    const settled = await Promise.allSettled([sell(), sell()]);
    return settled.flatMap((one) => (one.status === 'rejected' ? [one.reason as unknown] : []));
  }

  describeWithMariaDb('A level that is set for one transaction of MariaDB', () => {
    const redis = useRedis();
    const database = useMariaDb();
    const stock = useStock(database, 'mysql');

    const byHand = (locks: () => LockService, before: string[], given?: TransactionGiven) => {
      const pool = createPool({ ...database.settings });
      afterTest(() => pool.end());
      const run = mysql2Transactions(pool);
      return () =>
        run(
          async (tx) => {
            await tx.query('SELECT * FROM stock');
            await locks().withLock(stock.key, () => {
              const query = async (sql: string, values: unknown[]): Promise<unknown> =>
                (await tx.query(sql, values))[0];
              return stock.takeOne({ query }, 30);
            });
          },
          { before: [SESSION, ...before], ...(given === undefined ? {} : { given }) },
        );
    };

    it.each([{}, { fence: true }])('is not known, so join loses no update: %j', async (options) => {
      const sell = byHand(() => locks, [ONCE]);
      const { locks } = await startLocks(redis.url, { insideTransaction: 'join', ...options });
      const failures = await bothSell(sell);
      expect(await stock.quantity()).toBe(98 + failures.length);
      for (const failure of failures) {
        expect(failure).toBeInstanceOf(LockInTransactionError);
        expect(String(failure)).toMatch(
          /level is not known.*\{ isolation \}\) of lockAwareTransactions/,
        );
      }
      expect(failures).toHaveLength(2);
    });

    it('is known if it is named, and then join is allowed or refused', async () => {
      const fresh = byHand(() => locks, [], { isolation: 'READ COMMITTED' });
      const old = byHand(() => locks, [ONCE], { isolation: 'REPEATABLE READ' });
      const { locks } = await startLocks(redis.url, { insideTransaction: 'join', fence: true });
      expect(await bothSell(fresh)).toEqual([]);
      expect(await stock.quantity()).toBe(98);
      expect(String((await bothSell(old))[0])).toMatch(/Its isolation level keeps the snapshot/);
      expect(await stock.quantity()).toBe(98);
    });

    it.each(['REPEATABLE READ', 'READ COMMITTED'])(
      'is passed on by Sequelize: %s',
      async (level) => {
        const { host, port, user, password, database: name } = database.settings;
        const settings = { host, port, dialect: 'mysql', logging: false } as const;
        const sequelize = new Sequelize(name, user, password, settings);
        afterTest(() => sequelize.close());
        const run = lockAwareTransactions<Transaction>({
          dialect: 'mysql',
          query: (transaction, sql, replacements) =>
            sequelize.query(sql, { transaction, replacements }),
          pool: sequelize,
        });
        const { locks } = await startLocks(redis.url, { insideTransaction: 'join', fence: true });
        const isolationLevel = level as Transaction.ISOLATION_LEVELS;
        const sell = (): Promise<void> =>
          run<void>(
            (wrap) =>
              sequelize.transaction({ isolationLevel }, (transaction) =>
                wrap(transaction, async () => {
                  await sequelize.query('SELECT * FROM stock', { transaction });
                  const query = async (sql: string, replacements: unknown[]): Promise<unknown> =>
                    (await sequelize.query(sql, { transaction, replacements }))[0];
                  await locks.withLock(stock.key, () => stock.takeOne({ query }, 30));
                }),
              ),
            { isolation: isolationLevel },
          );
        const failures = await bothSell(sell);
        expect(failures).toHaveLength(level === 'READ COMMITTED' ? 0 : 2);
        expect(await stock.quantity()).toBe(98 + failures.length);
      },
    );
  });

  describe('A level that the body sets for its transaction of PostgreSQL', () => {
    const redis = useRedis();
    const database = usePostgres();
    const stock = useStock(database);

    it('is queried, whatever was named when the transaction was opened', async () => {
      const pool = new pg.Pool({ connectionString: database.url });
      afterTest(() => pool.end());
      const run = lockAwareTransactions<pg.PoolClient>({ dialect: 'postgres', pool });
      const { locks } = await startLocks(redis.url, { insideTransaction: 'join' });
      const sell = (): Promise<void> =>
        run(
          (wrap) =>
            inPgTransaction(pool, (client) =>
              wrap(client, async (tx) => {
                await tx.query(ONCE);
                await tx.query('SELECT * FROM stock');
                await sleep(10);
                await locks.withLock(stock.key, () => stock.takeOne(tx, 30));
              }),
            ),
          { isolation: 'READ COMMITTED' },
        );
      const failures = await bothSell(sell);
      expect(failures.map(String)).toEqual(
        Array(2).fill(expect.stringMatching(/Its isolation level keeps the snapshot/)),
      );
      expect(await stock.quantity()).toBe(100);
    });
  });
});

/** The work under the lock awaits `lock.release()` while a transaction keeps the hold. */
describe('a lock that is released early', () => {
  const redis = useRedis();
  const postgres = usePostgres();
  const stock = useStock(postgres);

  type Release = () => Promise<unknown>;

  const failure = new Error('sold out');

  async function byHand(
    dataSource: DataSource,
    beforeEnd: () => unknown = () => {},
    isCommitted = true,
  ): Promise<void> {
    const runner = dataSource.createQueryRunner();
    await runner.startTransaction();
    await stock.takeOne(runner.manager);
    await beforeEnd();
    await (isCommitted ? runner.commitTransaction() : runner.rollbackTransaction());
    await runner.release();
  }

  const failing = (dataSource: DataSource): Promise<unknown> =>
    dataSource.transaction(() => Promise.reject(failure)).catch(() => {});

  const selling = (dataSource: DataSource): Promise<unknown> =>
    dataSource.transaction((manager) => stock.takeOne(manager));

  /** Sells with a client of a pool, as the recipe does. */
  async function recipe(release: Release): Promise<void> {
    const pool = new pg.Pool({ connectionString: postgres.url });
    afterTest(() => pool.end());
    await lockAwareTransactions({ dialect: 'postgres', pool })(async (wrap) => {
      const client = await pool.connect();
      await client.query('BEGIN');
      const sell = `UPDATE stock SET quantity = quantity - 1 WHERE id = '${stock.product}'`;
      await wrap(client, () => client.query(sell));
      await release();
      await client.query('COMMIT');
      client.release();
    });
  }

  interface Way {
    readonly hook?: keyof EntitySubscriberInterface;
    readonly run: (dataSource: DataSource, release: Release) => Promise<unknown>;
    /** The remaining quantity. */
    readonly left: number;
  }

  const ways: Record<string, Way> = {
    'by hand, before the COMMIT': {
      run: (dataSource, release) => byHand(dataSource, release),
      left: 99,
    },
    'by hand, in the hook before COMMIT': {
      hook: 'beforeTransactionCommit',
      run: (dataSource) => byHand(dataSource),
      left: 99,
    },
    'by hand, in the hook after COMMIT': {
      hook: 'afterTransactionCommit',
      run: (dataSource) => byHand(dataSource),
      left: 99,
    },
    'by hand, in the hook before ROLLBACK': {
      hook: 'beforeTransactionRollback',
      run: (dataSource) => byHand(dataSource, undefined, false),
      left: 100,
    },
    'by hand, in the hook after ROLLBACK': {
      hook: 'afterTransactionRollback',
      run: (dataSource) => byHand(dataSource, undefined, false),
      left: 100,
    },
    'in the hook before COMMIT': { hook: 'beforeTransactionCommit', run: selling, left: 99 },
    'in the hook after COMMIT': { hook: 'afterTransactionCommit', run: selling, left: 99 },
    'in the hook before ROLLBACK': { hook: 'beforeTransactionRollback', run: failing, left: 100 },
    'between the body and the COMMIT of a recipe': {
      run: (_, release) => recipe(release),
      left: 99,
    },
  };

  describe('a lock that its own work releases too early', () => {
    it.each(Object.keys(ways))(
      'is kept until the transaction has ended, without a wait: %s',
      async (name) => {
        const { hook, run, left } = ways[name] as Way;
        const dataSource = lockAwareDataSource(await openDataSource('postgres', postgres.settings));
        const { locks } = await startLocks(redis.url);
        const answers: unknown[] = [];
        let release: Release = () => Promise.reject(new Error('no lock'));
        if (hook !== undefined) dataSource.subscribers.push({ [hook]: () => release() });
        await locks.withLock(stock.key, async (lock: Lock) => {
          release = async () => {
            answers.push(
              await lock.release(),
              await lock.release(),
              await isHeld(redis.url, stock.key),
            );
          };
          await run(dataSource, release);
        });
        expect(answers).toEqual([true, true, true]);
        expect([await stock.quantity(), await isHeld(redis.url, stock.key)]).toEqual([left, false]);
      },
    );

    it('is free when the release is answered, if the transaction has ended before', async () => {
      const dataSource = lockAwareDataSource(await openDataSource('postgres', postgres.settings));
      const { locks } = await startLocks(redis.url);
      await locks.withLock(stock.key, async (lock) => {
        await selling(dataSource);
        expect(await lock.release()).toBe(true);
        expect(await isHeld(redis.url, stock.key)).toBe(false);
      });
    });
  });
});
