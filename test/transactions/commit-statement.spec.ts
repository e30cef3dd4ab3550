import { describe, expect, it } from '@jest/globals';
import { LockCommitUnknownError, LockInTransactionError, LockLostError } from 'nestjs-locked';
import { lockAwareTransactions } from 'nestjs-locked/transactions';
import { lockAwareDataSource } from 'nestjs-locked/typeorm';
import pg from 'pg';
import type { DataSource, EntityManager, EntitySubscriberInterface, QueryRunner } from 'typeorm';
import { KnownStatus } from '../../libs/nestjs-locked/src/transactions/orm/known-status.js';
import { afterTest } from '../support/after-test.js';
import { useMariaDb, usePostgres } from '../support/databases.js';
import { describeWithMariaDb } from '../support/describe-if.js';
import { eventually } from '../support/eventually.js';
import { useRedis } from '../support/shared-redis.js';
import { openDataSource } from './data-source.js';
import { isHeld, startLocks } from './locks.js';
import { useStock } from './stock.js';

describe('a COMMIT in a statement', () => {
  const redis = useRedis();

  function lockLostInTheHook(type: 'postgres' | 'mysql', use: typeof usePostgres): void {
    const database = use();
    const stock = useStock(database, type);

    const startLocked = async (options: Parameters<typeof startLocks>[1] = {}) => ({
      dataSource: lockAwareDataSource(await openDataSource(type, database.settings, 1)),
      locks: (await startLocks(redis.url, options)).locks,
    });
    const isNested = (runner: QueryRunner): boolean =>
      (runner as { transactionDepth?: number }).transactionDepth !== 1;
    const sleepOf = (seconds: number): string =>
      type === 'postgres' ? `SELECT pg_sleep(${seconds})` : `SELECT SLEEP(${seconds})`;

    /** Opens a data source. The lock is lost while its commit hook runs. */
    const open = async () => {
      const { dataSource, locks } = await startLocked();
      let hooks = 0;
      const subscriber: EntitySubscriberInterface = {
        async beforeTransactionCommit({ queryRunner }) {
          if (isNested(queryRunner)) return;
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
        'a query runner driven manually',
        async (dataSource) => {
          const runner = dataSource.createQueryRunner();
          try {
            await runner.startTransaction();
            await takeOne(runner.manager);
            await runner.commitTransaction();
          } catch (error) {
            await runner.rollbackTransaction().catch(() => {}); // the connection may be closed
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

    /** The hook does not await the statement, so the COMMIT waits in the driver until the statement is answered. */
    it.each(ways)('sends none after an unanswered statement, for %s', async (_, sell) => {
      const { dataSource, locks } = await startLocked();
      let order: Promise<unknown> | undefined;
      dataSource.subscribers.push({
        beforeTransactionCommit({ queryRunner }) {
          const lock = locks.current(stock.key);
          const isAnswered = queryRunner.query(sleepOf(1)).then(() => lock?.isHeld);
          void locks.forceRelease(stock.key);
          order ??= isAnswered;
        },
      });
      const sale = locks.withLock(stock.key, () => sell(dataSource));
      await expect(sale).rejects.toBeInstanceOf(LockLostError);
      expect([await order, await stock.quantity()]).toEqual([false, 100]);
    });

    it('sends none after an unanswered statement on the connection of the driver', async () => {
      const { dataSource, locks } = await startLocked();
      dataSource.subscribers.push({
        async beforeTransactionCommit({ queryRunner }) {
          const client = (await queryRunner.connect()) as {
            query(sql: string, callback: () => void): unknown;
          };
          client.query(sleepOf(1), () => {});
          void locks.forceRelease(stock.key);
        },
      });
      const sale = locks.withLock(stock.key, () => dataSource.transaction(takeOne));
      await expect(sale).rejects.toBeInstanceOf(LockLostError);
      expect(await stock.quantity()).toBe(100);
    });

    it('sends none after the next one either, which comes while it waits', async () => {
      const { dataSource, locks } = await startLocked();
      dataSource.subscribers.push({
        beforeTransactionCommit({ queryRunner }) {
          void queryRunner.query(sleepOf(0.3)).then(() => {
            void locks.forceRelease(stock.key);
            return queryRunner.query(sleepOf(1));
          });
        },
      });
      const sale = locks.withLock(stock.key, () => dataSource.transaction(takeOne));
      await expect(sale).rejects.toBeInstanceOf(LockLostError);
      expect(await stock.quantity()).toBe(100);
    });

    it.each(ways)('waits for the answer no longer than its lease lasts: %s', async (_, sell) => {
      const { dataSource, locks } = await startLocked({
        leaseMs: 1_500,
        transactionTimeouts: false,
      });
      let isAnswered = false;
      dataSource.subscribers.push({
        beforeTransactionCommit({ queryRunner }) {
          if (isNested(queryRunner)) return;
          queryRunner.query(sleepOf(20)).then(
            () => (isAnswered = true),
            () => {},
          );
        },
      });
      const sale = locks.withLock(stock.key, () => sell(dataSource));
      await expect(sale).rejects.toBeInstanceOf(LockLostError);
      expect([isAnswered, await stock.quantity()]).toEqual([false, 100]);
    });

    it('sends it after a statement that is answered in time', async () => {
      const { dataSource, locks } = await startLocked();
      dataSource.subscribers.push({
        beforeTransactionCommit({ queryRunner }) {
          void queryRunner.query('SELECT 1').then(() => queryRunner.query('SELECT 2'));
        },
      });
      await locks.withLock(stock.key, () => dataSource.transaction(takeOne));
      expect(await stock.quantity()).toBe(99);
    });

    it('leaves the connection unchanged', async () => {
      const { dataSource, locks } = await startLocked();
      const clients: unknown[] = [];
      for (let n = 0; n < 3; n++) {
        await locks.withLock(stock.key, () =>
          dataSource.transaction(async (manager) => {
            clients.push(await manager.queryRunner?.connect());
            await takeOne(manager);
          }),
        );
      }
      expect(clients.map((client) => Object.hasOwn(client as object, 'query'))).toEqual(
        Array(3).fill(false),
      );
    });
  }

  describe('a lock that is lost in a commit hook, on PostgreSQL', () =>
    lockLostInTheHook('postgres', usePostgres));

  describeWithMariaDb('a lock that is lost in a commit hook, on MariaDB', () =>
    lockLostInTheHook('mysql', useMariaDb),
  );

  describe('a COMMIT right after a failing statement, on PostgreSQL', () => {
    const postgres = usePostgres();
    const stock = useStock(postgres);

    /**
     * Sends a failing statement after the gate, without awaiting it: at the COMMIT, the driver does not know its
     * outcome.
     */
    const fail = (client: { query(sql: string): Promise<unknown> }): void =>
      void client.query('SELECT 1 / 0').catch(() => {});

    it('is not a success with TypeORM, whose commit hook has sent the statement', async () => {
      const dataSource = lockAwareDataSource(await openDataSource('postgres', postgres.settings));
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

    /** Waits for ReadyForQuery, which follows the error and tells the driver the state of the transaction. */
    const serverIsReady = async (runner: QueryRunner): Promise<void> => {
      const client = (await runner.connect()) as { readyForQuery: boolean };
      await eventually(() => expect(client.readyForQuery).toBe(true));
    };

    /** The hooks swallow the error. */
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

    describe.each(hooks)('in the commit hook of a query runner driven manually, %s', (_, act) => {
      const endings: [string, (runner: QueryRunner) => Promise<void>][] = [
        ['rolls back', (runner) => runner.rollbackTransaction()],
        ['only releases it', () => Promise.resolve()],
      ];

      it.each(endings)('is not a success, and its owner %s', async (__, end) => {
        const dataSource = lockAwareDataSource(
          await openDataSource('postgres', postgres.settings, 1),
        );
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
        // The connection still works, and so does the next sale.
        await dataSource.transaction((manager) => stock.takeOne(manager));
        expect(await stock.quantity()).toBe(99);
      });
    });

    it.each([
      ['is refused its COMMIT', () => {}],
      [
        'has its COMMIT answered with ROLLBACK, if the client does not know its status',
        (client: pg.PoolClient) => Object.assign(client, { getTransactionStatus: () => null }),
      ],
    ])('is not a success with node-postgres, and %s', async (_, change) => {
      const pool = new pg.Pool({ connectionString: postgres.url });
      afterTest(() => pool.end());
      const run = lockAwareTransactions<pg.PoolClient>({ dialect: 'postgres', pool });
      const { locks } = await startLocks(redis.url);
      let answer: unknown;
      const sale = locks.withLock(stock.key, () =>
        run(async (wrap) => {
          const client = await pool.connect();
          change(client);
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

  describe('a call that reported success, judged by what it has sent', () => {
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
        expect(lasts).toBe(true); // until the lease ends
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

    it('does not affect the committed one, although the lock is lost by then', async () => {
      const dataSource = lockAwareDataSource(
        await openDataSource('postgres', postgres.settings, 1),
      );
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

    it('does not affect it either if its own COMMIT is refused', async () => {
      const dataSource = lockAwareDataSource(
        await openDataSource('postgres', postgres.settings, 1),
      );
      const { locks } = await startLocks(redis.url);
      await postgres.query(
        'CREATE TABLE IF NOT EXISTS hooked (id int UNIQUE DEFERRABLE INITIALLY DEFERRED)',
      );
      const refusals: unknown[] = [];
      const subscriber: EntitySubscriberInterface = {
        async afterTransactionCommit({ queryRunner }) {
          await queryRunner.query('BEGIN');
          await queryRunner.query('INSERT INTO hooked VALUES (1), (1)');
          await queryRunner.query('COMMIT').catch((error: unknown) => refusals.push(error));
        },
      };
      dataSource.subscribers.push(subscriber);
      await locks.withLock(stock.key, () =>
        dataSource.transaction((manager) => stock.takeOne(manager)),
      );
      expect(String(refusals)).toMatch(/duplicate key/);
      expect(await stock.quantity()).toBe(99);
    });
  });
});

describe('a COMMIT after a failure', () => {
  const redis = useRedis();
  const postgres = usePostgres();
  const stock = useStock(postgres);

  /** Opens transactions with code that continues after the failure of its body, and commits. */
  async function openAll() {
    const pool = new pg.Pool({ connectionString: postgres.url, max: 1 });
    afterTest(() => pool.end());
    const run = lockAwareTransactions<pg.PoolClient>({ dialect: 'postgres', pool });
    const { locks } = await startLocks(redis.url);
    /** The outcome of the COMMIT. */
    let told: unknown = 'committed';
    const sell = (
      fail: () => Promise<unknown>,
      { swallows }: { readonly swallows: boolean },
    ): Promise<unknown> =>
      run(async (wrap) => {
        const client = await pool.connect();
        try {
          await client.query('BEGIN');
          await wrap(client, async (tx) => {
            await tx.query('UPDATE stock SET quantity = quantity - 1 WHERE id = $1', [
              stock.product,
            ]);
            await fail();
          }).catch(() => {});
          await client.query('COMMIT').catch((error: unknown) => {
            told = error;
            if (!swallows) throw error;
          });
          return 'sold';
        } finally {
          client.release();
        }
      });
    /** The next user of the same connection. */
    const nextUser = (): Promise<unknown> =>
      pool.query('UPDATE stock SET quantity = quantity - 10 WHERE id = $1', [stock.product]);
    return { locks, sell, nextUser, commitWasTold: () => told };
  }

  const outOfCredit = (): Promise<never> => Promise.reject(new Error('out of credit'));

  describe('a COMMIT by code that has swallowed the failure of its transaction', () => {
    it.each([true, false])(
      'is refused after a failure of the body, even if that is swallowed: %s',
      async (swallows) => {
        const { locks, sell, nextUser, commitWasTold } = await openAll();
        const sale = locks.withLock(stock.key, () => sell(outOfCredit, { swallows }));
        await expect(sale).rejects.toThrow(
          /has failed, so it can only be rolled back; let that error reach the code that rolls back/,
        );
        await expect(sale).rejects.toBeInstanceOf(LockInTransactionError);
        await expect(sale).rejects.toHaveProperty('cause.message', 'out of credit');
        expect(commitWasTold()).toBeInstanceOf(LockInTransactionError);
        expect([await stock.quantity(), await isHeld(redis.url, stock.key)]).toEqual([100, false]);
        await nextUser();
        expect(await stock.quantity()).toBe(90);
      },
    );

    it('is refused if the gate has failed, and its caller learns why', async () => {
      const { locks, sell, nextUser, commitWasTold } = await openAll();
      const loseTheLock = async (): Promise<void> => {
        const lock = locks.current(stock.key);
        await locks.forceRelease(stock.key);
        await eventually(() => expect(lock?.isHeld).toBe(false));
      };
      const sale = locks.withLock(stock.key, () => sell(loseTheLock, { swallows: true }));
      await expect(sale).rejects.toBeInstanceOf(LockLostError);
      expect(commitWasTold()).toBeInstanceOf(LockInTransactionError);
      expect(await stock.quantity()).toBe(100);
      await nextUser();
      expect(await stock.quantity()).toBe(90);
    });

    it('is sent without a lock', async () => {
      const { sell, commitWasTold } = await openAll();
      expect(await sell(outOfCredit, { swallows: false })).toBe('sold');
      expect([commitWasTold(), await stock.quantity()]).toEqual(['committed', 99]);
    });
  });
});

describe('a COMMIT followed by statements', () => {
  const redis = useRedis();

  describe('a COMMIT among other statements in one text, one of which fails', () => {
    const postgres = usePostgres();
    const stock = useStock(postgres);

    /** @param end sends the statement that ends the transaction */
    const sell = async (
      end: (client: pg.PoolClient) => Promise<unknown>,
    ): Promise<{ told: unknown; left: number; isHeld: boolean }> => {
      const pool = new pg.Pool({ connectionString: postgres.url });
      afterTest(() => pool.end());
      const run = lockAwareTransactions<pg.PoolClient>({ dialect: 'postgres', pool });
      const { locks } = await startLocks(redis.url);
      const told = await locks
        .withLock(stock.key, () =>
          run(async (wrap) => {
            const client = await pool.connect();
            try {
              await client.query('BEGIN');
              await wrap(client, (tx) =>
                tx.query('UPDATE stock SET quantity = quantity - 1 WHERE id = $1', [stock.product]),
              );
              await end(client);
            } finally {
              client.release(true);
            }
          }),
        )
        .catch((error: unknown) => error);
      return { told, left: await stock.quantity(), isHeld: await isHeld(redis.url, stock.key) };
    };

    const swallowed = (sent: Promise<unknown>): Promise<unknown> => sent.catch(() => {});

    it.each<[string, (client: pg.PoolClient) => Promise<unknown>]>([
      ['it fails', (client) => client.query('COMMIT; SELECT 1 / 0')],
      ['its error is swallowed', (client) => swallowed(client.query('COMMIT; SELECT 1 / 0'))],
      [
        'it is sent again',
        (client) =>
          swallowed(client.query('COMMIT; SELECT 1 / 0')).then(() => client.query('COMMIT')),
      ],
      [
        'it is rolled back then',
        (client) =>
          client.query('COMMIT; SELECT 1 / 0').catch(async (error: unknown) => {
            await client.query('ROLLBACK');
            throw error;
          }),
      ],
    ])('is in doubt if the other one follows it: %s', async (_, end) => {
      expect(await sell(end)).toEqual({
        told: expect.any(LockCommitUnknownError),
        left: 99,
        isHeld: true,
      });
    });

    it('was refused if the other one comes before it', async () => {
      expect(await sell((client) => client.query('SELECT 1 / 0; COMMIT;'))).toEqual({
        told: expect.objectContaining({ code: '22012' }),
        left: 100,
        isHeld: false,
      });
    });
  });
});

describe('a COMMIT whose error is swallowed', () => {
  const redis = useRedis();

  const rowsFrom =
    (client: pg.PoolClient) =>
    async (sql: string, params: unknown[]): Promise<unknown[]> =>
      (await client.query<pg.QueryResultRow>(sql, params)).rows;

  describe('code that swallows the error of its COMMIT, or does not await the answer', () => {
    const postgres = usePostgres();
    const stock = useStock(postgres);

    /** Sells, and reports success whatever the outcome of the COMMIT. */
    const sell = async (
      commit: (client: pg.PoolClient) => Promise<unknown>,
    ): Promise<{ told: unknown; isHeld: boolean }> => {
      const pool = new pg.Pool({ connectionString: postgres.url });
      afterTest(() => pool.end());
      const run = lockAwareTransactions<pg.PoolClient>({ dialect: 'postgres', pool });
      const { locks } = await startLocks(redis.url);
      let client: pg.PoolClient | undefined;
      const told = await locks
        .withLock(stock.key, () =>
          run(async (wrap) => {
            client = await pool.connect();
            client.on('error', () => {});
            await client.query('BEGIN');
            await wrap(client, (tx) => stock.takeOne({ query: rowsFrom(tx) }));
            await commit(client);
          }),
        )
        .catch((error: unknown) => error);
      const answer = { told, isHeld: await isHeld(redis.url, stock.key) };
      client?.release(true);
      return answer;
    };

    it('gets the error that the database has refused it', async () => {
      await postgres.query(
        'CREATE TABLE sold_once (id int UNIQUE DEFERRABLE INITIALLY DEFERRED); INSERT INTO sold_once VALUES (1)',
      );
      afterTest(() => postgres.query('DROP TABLE sold_once'));
      const answer = await sell(async (client) => {
        await client.query('INSERT INTO sold_once VALUES (1)');
        await client.query('COMMIT').catch(() => {});
      });
      expect(answer).toEqual({ told: expect.objectContaining({ code: '23505' }), isHeld: false });
      expect(await stock.quantity()).toBe(100);
    });

    const doubts: [string, (client: pg.PoolClient) => Promise<unknown>][] = [
      [
        'its connection has died during the COMMIT',
        async (client) => {
          const answered = client.query('COMMIT').catch(() => {});
          const { connection } = client as unknown as {
            connection: { stream: { destroy: () => void } };
          };
          connection.stream.destroy();
          await answered;
        },
      ],
      [
        'the COMMIT was not awaited',
        (client) => {
          void client.query('COMMIT').catch(() => {});
          return Promise.resolve();
        },
      ],
    ];

    it.each(doubts)('keeps the lock until its lease ends, because %s', async (_, commit) => {
      const answer = await sell(commit);
      expect(answer).toEqual({ told: expect.any(LockCommitUnknownError), isHeld: true });
    });
  });
});

describe('a status that is known', () => {
  type Callback = (error: unknown, answer?: unknown) => void;

  const header = (serverStatus: number) => ({ affectedRows: 0, serverStatus });
  const [OPEN, NONE] = [header(1), header(0)];

  /** Queries the status; the test gives the reply. */
  function ask(status: KnownStatus): { asked: Promise<void>; answer: Callback } {
    let answer: Callback = () => {};
    const asked = status.ask((args) => (answer = args[1] as Callback));
    return { asked, answer: (...told) => answer(...told) };
  }

  it('only the answer to the latest statement counts', async () => {
    const status = new KnownStatus('mysql');
    const { asked, answer } = ask(status);
    await status.after(() => Promise.resolve(NONE));
    answer(null, OPEN);
    await asked;
    expect(status.on({})).toBe('none');
  });

  it('a driver that does not report its state is asked once', async () => {
    const status = new KnownStatus('mysql');
    expect(status.mustBeAsked).toBe(true);
    const { asked, answer } = ask(status);
    answer(null, {});
    await asked;
    expect([status.mustBeAsked, status.on({})]).toEqual([false, undefined]);
  });

  it('an error does not count as such an answer', async () => {
    const status = new KnownStatus('mysql');
    const { asked, answer } = ask(status);
    answer(new Error('query execution was interrupted'));
    await asked;
    expect(status.on({})).toBe('failed');
  });
});
