import { describe, expect, it } from '@jest/globals';
import { MikroORM } from '@mikro-orm/postgresql';
import { sql as textOf } from 'drizzle-orm';
import { drizzle as drizzleOnMySql2 } from 'drizzle-orm/mysql2';
import { drizzle as drizzleOnPg } from 'drizzle-orm/node-postgres';
import { drizzle as drizzleOnPostgresJs } from 'drizzle-orm/postgres-js';
import knexOf, { type Knex } from 'knex';
import {
  createPool as createCallbackPool,
  type PoolConnection as CallbackConnection,
  type PrepareStatementInfo,
} from 'mysql2';
import { createPool, type PoolConnection } from 'mysql2/promise';
import { LockInTransactionError, LockLostError } from 'nestjs-locked';
import { lockAwareTransactions } from 'nestjs-locked/transactions';
import { lockAwareDataSource } from 'nestjs-locked/typeorm';
import pg, { type Client, Pool } from 'pg';
import postgres from 'postgres';
import { Sequelize } from 'sequelize';
import type { EntityManager, QueryRunner } from 'typeorm';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterTest } from '../support/after-test.js';
import { useMariaDb, usePostgres } from '../support/databases.js';
import { describeWithMariaDb } from '../support/describe-if.js';
import { makeGate } from '../support/gate.js';
import { useRedis } from '../support/shared-redis.js';
import { openDataSource } from './data-source.js';
import { startLocks } from './locks.js';
import { mysql2Transactions } from './mysql2-transactions.js';
import { transactionsOf as mikroOrmTransactionsOf } from './recipes/mikro-orm.js';
import { inTransaction } from './recipes/postgres-js.js';
import { transactionsOf as sequelizeTransactionsOf } from './recipes/sequelize.js';
import { useStock } from './stock.js';

describe('the body ends the transaction', () => {
  const redis = useRedis();

  /**
   * The callback connection inside a connection of mysql2/promise. The type declarations wrongly call it a promise
   * connection.
   */
  function callbacksOf({ connection }: PoolConnection): CallbackConnection {
    return connection as unknown as CallbackConnection;
  }

  describeWithMariaDb('a body on mysql2 that ends its transaction itself', () => {
    const mariaDb = useMariaDb();
    const stock = useStock(mariaDb, 'mysql');

    /** Sells two pieces, and ends the transaction in between. */
    const sell = async (end: (client: PoolConnection) => Promise<unknown>): Promise<void> => {
      const pool = createPool({ uri: mariaDb.url, connectionLimit: 1 });
      afterTest(() => pool.end());
      const transaction = mysql2Transactions(pool);
      const { locks } = await startLocks(redis.url);
      const update = 'UPDATE stock SET quantity = quantity - 1 WHERE id = ?';
      const sold = locks.withLock(stock.key, () =>
        transaction(async (client) => {
          await client.query(update, [stock.product]);
          await end(client).catch(() => {}); // swallowed
          await client.query(update, [stock.product]);
        }),
      );
      await expect(sold).rejects.toThrow(LockInTransactionError);
    };

    it.each<[string, (client: PoolConnection) => Promise<unknown>]>([
      ['commit()', (client) => client.commit()],
      ['beginTransaction()', (client) => client.beginTransaction()],
      ['rollback()', (client) => client.rollback()],
      ['ROLLBACK', (client) => client.query('ROLLBACK')],
      ['START TRANSACTION', (client) => client.query('START TRANSACTION')],
      ['BEGIN', (client) => client.query('BEGIN')],
      ['SET autocommit', (client) => client.query('SET autocommit = 1')],
      ['reset()', (client) => client.reset()],
      ['changeUser()', (client) => client.changeUser({})],
      ['connection', async (client) => callbacksOf(client).query('COMMIT', () => {})],
      ['connection.promise()', (client) => callbacksOf(client).promise().commit()],
    ])('writes nothing: %s', async (_, end) => {
      await sell(end);
      expect(await stock.quantity()).toBe(100);
    });

    it('is refused when it would commit by beginning another transaction', async () => {
      let refusal: unknown;
      const begin = (client: PoolConnection) => client.query('START TRANSACTION READ ONLY');
      await sell((client) => begin(client).catch((error: unknown) => (refusal = error)));
      expect(refusal).toBeInstanceOf(LockInTransactionError);
      expect(await stock.quantity()).toBe(100);
    });

    it('gets a refused commit() as the error of its promise', async () => {
      let refusal: unknown;
      await sell((client) => client.commit().catch((error: unknown) => (refusal = error)));
      expect(refusal).toBeInstanceOf(LockInTransactionError);
    });

    it('gets the same client, however it asks for it', async () => {
      const pool = createPool({ uri: mariaDb.url, connectionLimit: 1 });
      afterTest(() => pool.end());
      await mysql2Transactions(pool)(async (client) => {
        expect(client.connection).toBe(client.connection);
        expect(client.connection.on('error', () => {})).toBe(client.connection);
      });
    });
  });

  describeWithMariaDb('a body on mysql2 whose connection takes callbacks', () => {
    const mariaDb = useMariaDb();
    const stock = useStock(mariaDb, 'mysql');

    /** Runs a body under a lock, on a pool of one connection. */
    const transact = async (body: (client: CallbackConnection) => Promise<unknown>) => {
      const pool = createCallbackPool({ uri: mariaDb.url, connectionLimit: 1 }).promise();
      afterTest(() => pool.end());
      const run = lockAwareTransactions<CallbackConnection>({
        dialect: 'mysql',
        query: (client, sql, params) => client.promise().query(sql, params),
      });
      const { locks } = await startLocks(redis.url);
      const transacted = locks.withLock(stock.key, () =>
        run(async (wrap) => {
          const opener = await pool.getConnection();
          await opener.beginTransaction();
          try {
            await wrap(callbacksOf(opener), body);
            await opener.commit();
          } catch (error) {
            await opener.rollback();
            throw error;
          } finally {
            opener.release();
          }
        }),
      );
      return { transacted, pool };
    };
    const update = 'UPDATE stock SET quantity = quantity - 1 WHERE id = ?';

    it('writes nothing if it ends its transaction through the result of promise()', async () => {
      let refusal: unknown;
      const { transacted } = await transact(async (client) => {
        const promised = client.promise();
        await promised.query(update, [stock.product]);
        await promised.query('COMMIT').catch((error: unknown) => (refusal = error)); // swallowed
      });
      await expect(transacted).rejects.toThrow(LockInTransactionError);
      expect(refusal).toBeInstanceOf(LockInTransactionError);
      expect(await stock.quantity()).toBe(100);
    });

    it('sends nothing late through the result of promise()', async () => {
      let promised: PoolConnection | undefined;
      const { transacted, pool } = await transact(async (client) => {
        promised = client.promise();
        await promised.query(update, [stock.product]);
      });
      await transacted;
      const next = await pool.getConnection();
      await next.beginTransaction();
      await expect(promised?.query(update, [stock.product])).rejects.toThrow(
        LockInTransactionError,
      );
      await next.commit();
      expect(await stock.quantity()).toBe(99);
    });

    it('sends no prepared statement late or after a ROLLBACK', async () => {
      const answers: unknown[] = [];
      const told = (error: unknown): unknown => answers.push(error ?? 'sent');
      let executeLate = (): void => {};
      const { transacted, pool } = await transact(async (client) => {
        const statement = await new Promise<PrepareStatementInfo>((resolve, reject) => {
          client.prepare(update, (error, made) => (error === null ? resolve(made) : reject(error)));
        });
        executeLate = () => statement.execute([stock.product], told);
        await client.promise().query('ROLLBACK');
        statement.execute([stock.product], told);
      });
      await expect(transacted).rejects.toThrow(LockInTransactionError);
      expect(executeLate).toThrow(LockInTransactionError);
      await pool.query('SELECT 1'); // queued behind any statement that was sent before
      expect([answers, await stock.quantity()]).toEqual([[], 100]);
    });
  });

  describe('a body on postgres.js that rolls its transaction back itself', () => {
    const postgresql = usePostgres();
    const stock = useStock(postgresql);

    it('writes nothing', async () => {
      const sql = postgres(postgresql.url, { max: 1, onnotice: () => {} });
      afterTest(() => sql.end());
      const { locks } = await startLocks(redis.url);
      const sold = locks.withLock(stock.key, () =>
        inTransaction(sql, async (tx) => {
          await tx`UPDATE stock SET quantity = quantity - 1 WHERE id = ${stock.product}`;
          await tx.unsafe('ROLLBACK');
          await tx`UPDATE stock SET quantity = quantity - 1 WHERE id = ${stock.product}`;
        }),
      );
      await expect(sold).rejects.toThrow(LockInTransactionError);
      expect(await stock.quantity()).toBe(100);
    });
  });

  function endedByStream(type: 'postgres' | 'mysql', use: typeof usePostgres): void {
    const database = use();
    const stock = useStock(database, type);

    it('writes nothing', async () => {
      const dataSource = lockAwareDataSource(await openDataSource(type, database.settings, 1));
      const { locks } = await startLocks(redis.url);
      let refusal: unknown;
      const sold = locks.withLock(stock.key, () =>
        dataSource.transaction(async (manager) => {
          await stock.takeOne(manager);
          const end = async (): Promise<void> => {
            const rows = await manager.queryRunner?.stream('COMMIT');
            for await (const row of rows ?? []) void row; // the statement is sent when the stream is read
          };
          await end().catch((error: unknown) => (refusal = error)); // swallowed
          await stock.takeOne(manager);
        }),
      );
      await expect(sold).rejects.toThrow(LockInTransactionError);
      expect(refusal).toBeInstanceOf(LockInTransactionError);
      expect(await stock.quantity()).toBe(100);
    });
  }

  describe('a body on TypeORM that ends its transaction by a stream, on PostgreSQL', () =>
    endedByStream('postgres', usePostgres));

  describeWithMariaDb('a body on TypeORM that ends its transaction by a stream, on MariaDB', () =>
    endedByStream('mysql', useMariaDb),
  );

  interface DrizzleTx {
    execute(statement: ReturnType<typeof textOf.raw>): PromiseLike<unknown>;
  }

  /** Runs a body in a transaction under a lock. */
  async function transactWithDrizzle(
    database: { transaction<R>(body: (tx: DrizzleTx) => Promise<R>): Promise<R> },
    send: (execute: (text: string) => PromiseLike<unknown>) => Promise<unknown>,
  ): Promise<unknown> {
    const run = lockAwareTransactions<DrizzleTx>();
    const { locks } = await startLocks(redis.url);
    return locks.withLock('drizzle', () =>
      run((wrap) =>
        database.transaction((opened) =>
          wrap(opened, (tx) => send((text) => tx.execute(textOf.raw(text)))),
        ),
      ),
    );
  }

  function describeDrizzle(open: () => Parameters<typeof transactWithDrizzle>[0]): void {
    it.each([
      ['and returns', ['ROLLBACK']],
      ['and continues', ['ROLLBACK', 'SELECT 1']],
    ])('fails with the reason, not with the error of a query: %s', async (_, texts) => {
      const done = transactWithDrizzle(open(), async (execute) => {
        for (const text of texts) await execute(text);
      });
      await expect(done).rejects.toThrow(/has rolled it back with a statement of its own/);
      await expect(done).rejects.toBeInstanceOf(LockInTransactionError);
    });
  }

  describe('a body of Drizzle on postgres.js that rolls back itself', () => {
    const database = usePostgres();
    describeDrizzle(() => {
      const client = postgres(database.url, { max: 1, onnotice: () => {} });
      afterTest(() => client.end({ timeout: 0 }));
      return drizzleOnPostgresJs(client);
    });
  });

  describeWithMariaDb('a body of Drizzle on mysql2 that rolls back itself', () => {
    const mariaDb = useMariaDb();
    describeDrizzle(() => {
      const pool = createPool({ uri: mariaDb.url, connectionLimit: 1 });
      afterTest(() => pool.end());
      return drizzleOnMySql2(pool);
    });
  });

  describeWithMariaDb('a body on TypeORM that begins another transaction, on MariaDB', () => {
    const mariaDb = useMariaDb();
    const stock = useStock(mariaDb, 'mysql');

    it.each(
      ['START TRANSACTION', 'BEGIN', 'SET autocommit = 1'].flatMap((text) => [
        [text, 'with a callback'],
        [text, 'by hand'],
      ]),
    )('writes nothing: %s, %s', async (text, how) => {
      const dataSource = lockAwareDataSource(await openDataSource('mysql', mariaDb.settings, 1));
      const { locks } = await startLocks(redis.url);
      let refusal: unknown;
      const body = async (manager: EntityManager): Promise<void> => {
        await stock.takeOne(manager);
        await manager.query(text).catch((error: unknown) => (refusal = error)); // swallowed
      };
      const byHand = async (): Promise<void> => {
        const runner = dataSource.createQueryRunner();
        try {
          await runner.startTransaction();
          await body(runner.manager);
          await runner.commitTransaction();
        } finally {
          if (runner.isTransactionActive) await runner.rollbackTransaction();
          await runner.release();
        }
      };
      const sold = locks.withLock(stock.key, () =>
        how === 'by hand' ? byHand() : dataSource.transaction(body),
      );
      await expect(sold).rejects.toThrow(LockInTransactionError);
      expect(refusal).toBeInstanceOf(LockInTransactionError);
      expect(await stock.quantity()).toBe(100);
    });
  });

  describeWithMariaDb(
    'a hook of TypeORM that begins another transaction by a statement, on MariaDB',
    () => {
      const mariaDb = useMariaDb();
      const stock = useStock(mariaDb, 'mysql');

      it('writes nothing if the lock is lost before the COMMIT', async () => {
        const dataSource = lockAwareDataSource(await openDataSource('mysql', mariaDb.settings, 1));
        const { locks } = await startLocks(redis.url);
        let refusal: unknown;
        dataSource.subscribers.push({
          beforeTransactionCommit: async ({ queryRunner }) => {
            await locks.forceRelease(stock.key);
            await queryRunner
              .query('START TRANSACTION')
              .catch((error: unknown) => (refusal = error));
          },
        });
        const sold = locks.withLock(stock.key, () =>
          dataSource.transaction((manager) => stock.takeOne(manager)),
        );
        await expect(sold).rejects.toBeInstanceOf(LockLostError);
        expect(refusal).toBeInstanceOf(LockLostError);
        expect(await stock.quantity()).toBe(100);
      });

      it('may do so once the first one was committed', async () => {
        const dataSource = lockAwareDataSource(await openDataSource('mysql', mariaDb.settings, 1));
        const { locks } = await startLocks(redis.url);
        dataSource.subscribers.push({
          afterTransactionCommit: async ({ queryRunner }) => {
            await queryRunner.query('START TRANSACTION');
            await queryRunner.query('ROLLBACK');
          },
        });
        await locks.withLock(stock.key, () => dataSource.transaction((tx) => stock.takeOne(tx)));
        expect(await stock.quantity()).toBe(99);
      });
    },
  );

  describe('a body on TypeORM that sends BEGIN, on PostgreSQL', () => {
    const postgres = usePostgres();
    const stock = useStock(postgres);

    it('gets a warning from the database, which begins nothing', async () => {
      const dataSource = lockAwareDataSource(
        await openDataSource('postgres', postgres.settings, 1),
      );
      const { locks } = await startLocks(redis.url);
      await locks.withLock(stock.key, () =>
        dataSource.transaction(async (manager) => {
          await stock.takeOne(manager);
          await manager.query('BEGIN');
        }),
      );
      expect(await stock.quantity()).toBe(99);
    });
  });

  describe('a body of Drizzle that has ended one transaction and begun another, and fails under a lock', () => {
    const database = usePostgres();
    const stock = useStock(database);

    it('is rolled back', async () => {
      const pool = new Pool({ ...database.settings, max: 1 });
      afterTest(() => pool.end());
      const run = lockAwareTransactions<DrizzleTx>();
      const { locks } = await startLocks(redis.url);
      const transact = (body: (tx: DrizzleTx) => Promise<unknown>): Promise<unknown> =>
        run((wrap) => drizzleOnPg(pool).transaction((tx) => wrap(tx, body)));
      const failed = transact(async (tx) => {
        await tx.execute(textOf`ROLLBACK`);
        await tx.execute(textOf`BEGIN`);
        await locks.withLock(stock.key, { insideTransaction: 'join' }, async () => {
          await tx.execute(
            textOf`UPDATE stock SET quantity = quantity - 1 WHERE id = ${stock.product}`,
          );
          throw new Error('of the body');
        });
      });
      await expect(failed).rejects.toThrow('of the body');
      await transact(async (tx) => tx.execute(textOf`SELECT 1`));
      expect(await stock.quantity()).toBe(100);
    });
  });
});

describe('a branch ends the transaction late', () => {
  const redis = useRedis();

  /** A branch of a body that does not await it. */
  interface Branch {
    /** Resolves when the body has ended and the COMMIT is not sent yet. */
    readonly isDue: Promise<void>;
    /** Lets the branch continue, and waits for its end. */
    goOn(): Promise<void>;
    /** The outcome of the branch. */
    told: unknown;
  }

  function makeBranch(): Branch & { begin(work: () => Promise<unknown>): void } {
    const due = makeGate();
    let ended: Promise<unknown> | undefined;
    const branch = {
      isDue: due.opened,
      told: undefined as unknown,
      begin: (work: () => Promise<unknown>): void => {
        ended = due.opened.then(work).then(
          () => (branch.told = 'sent'),
          (error: unknown) => (branch.told = error),
        );
      },
      goOn: async (): Promise<void> => {
        due.open();
        await ended;
      },
    };
    return branch;
  }

  describe('a branch that ends its transaction between the end of the body and the COMMIT', () => {
    const postgres = usePostgres();
    const stock = useStock(postgres);

    it.each([
      'ROLLBACK',
      'ROLLBACK AND CHAIN',
      'ROLLBACK; UPDATE stock SET quantity = 0',
      'COMMIT',
      'COMMIT; UPDATE stock SET quantity = 0',
    ])('is refused, and the transaction is committed: %s', async (ending) => {
      const pool = new pg.Pool({ connectionString: postgres.url });
      afterTest(() => pool.end());
      const run = lockAwareTransactions<pg.PoolClient>({ dialect: 'postgres', pool });
      const { locks } = await startLocks(redis.url, { fence: true });
      const branch = makeBranch();
      const token = await locks.withLock(stock.key, async (lock) => {
        await run(async (wrap) => {
          const client = await pool.connect();
          try {
            await client.query('BEGIN');
            await wrap(client, async (tx) => {
              await tx.query('UPDATE stock SET quantity = quantity - 1 WHERE id = $1', [
                stock.product,
              ]);
              branch.begin(() => tx.query(ending));
            });
            await branch.goOn();
            await client.query('COMMIT');
          } finally {
            client.release();
          }
        });
        return lock.fencingToken;
      });
      expect(branch.told).toBeInstanceOf(LockInTransactionError);
      expect([await stock.quantity(), await stock.fence()]).toEqual([99, token]);
    });

    it('lets the opener roll back', async () => {
      const pool = new pg.Pool({ connectionString: postgres.url });
      afterTest(() => pool.end());
      const run = lockAwareTransactions<pg.PoolClient>({ dialect: 'postgres', pool });
      const { locks } = await startLocks(redis.url);
      await locks.withLock(stock.key, () =>
        run(async (wrap) => {
          const client = await pool.connect();
          await client.query('BEGIN');
          await wrap(client, (tx) =>
            tx.query('UPDATE stock SET quantity = quantity - 1 WHERE id = $1', [stock.product]),
          );
          await client.query('ROLLBACK');
          client.release();
        }),
      );
      expect(await stock.quantity()).toBe(100);
    });
  });

  describeWithMariaDb('the same on mysql2, where nobody sees what the opener sends', () => {
    const mariaDb = useMariaDb();
    const stock = useStock(mariaDb, 'mysql');

    it.each<[string, (client: PoolConnection) => Promise<unknown>]>([
      ['ROLLBACK', (client) => client.query('ROLLBACK')],
      ['rollback()', (client) => client.rollback()],
      ['COMMIT', (client) => client.query('COMMIT')],
    ])('is refused, and the transaction is committed: %s', async (_, end) => {
      const pool = createPool({ uri: mariaDb.url });
      afterTest(() => pool.end());
      const run = lockAwareTransactions<PoolConnection>({ dialect: 'mysql' });
      const { locks } = await startLocks(redis.url);
      const branch = makeBranch();
      await locks.withLock(stock.key, () =>
        run(async (wrap) => {
          const client = await pool.getConnection();
          await client.beginTransaction();
          await wrap(client, async (tx) => {
            await tx.query('UPDATE stock SET quantity = quantity - 1 WHERE id = ?', [
              stock.product,
            ]);
            branch.begin(() => end(tx));
          });
          await branch.goOn();
          await client.commit();
          client.release();
        }),
      );
      expect(branch.told).toBeInstanceOf(LockInTransactionError);
      expect(await stock.quantity()).toBe(99);
    });
  });
});

describe('the body gives its connection back', () => {
  const redis = useRedis();
  const postgres = usePostgres();
  const stock = useStock(postgres);

  interface Given {
    readonly pool: pg.Pool;
    /** Runs a body with functions that send a statement in its transaction and release its connection. */
    readonly transact: (
      body: (send: (sql: string) => Promise<unknown>, giveBack: () => unknown) => Promise<unknown>,
    ) => Promise<unknown>;
  }

  const openTypeOrm = async () => {
    const dataSource = lockAwareDataSource(await openDataSource('postgres', postgres.settings, 1));
    const { master: pool } = dataSource.driver as unknown as { readonly master: pg.Pool };
    return { dataSource, pool };
  };

  /** The ways to open a transaction, each on a pool of one connection. */
  const WAYS: Record<string, () => Promise<Given>> = {
    'TypeORM, with a callback': async () => {
      const { dataSource, pool } = await openTypeOrm();
      return {
        pool,
        transact: (body) =>
          dataSource.transaction((manager) => {
            const runner = manager.queryRunner as QueryRunner;
            return body(
              (sql) => runner.query(sql),
              () => runner.release(),
            );
          }),
      };
    },
    'TypeORM, by hand': async () => {
      const { dataSource, pool } = await openTypeOrm();
      return {
        pool,
        transact: async (body) => {
          const runner = dataSource.createQueryRunner();
          await runner.startTransaction();
          return body(
            (sql) => runner.query(sql),
            () => runner.release(),
          );
        },
      };
    },
    'node-postgres': () => {
      const pool = new pg.Pool({ connectionString: postgres.url, max: 1 });
      afterTest(() => pool.end());
      const run = lockAwareTransactions<pg.PoolClient>({ dialect: 'postgres', pool });
      const transact: Given['transact'] = (body) =>
        run(async (wrap) => {
          const client = await pool.connect();
          await client.query('BEGIN');
          return wrap(client, (tx) =>
            body(
              (sql) => tx.query(sql),
              () => tx.release(),
            ),
          );
        });
      return Promise.resolve({ pool, transact });
    },
  };

  // The pool calls waiting callers in the async context of the code that releases the connection.
  it.each(Object.keys(WAYS))(
    'a caller that waits for the connection that a body releases after its ROLLBACK is not refused: %s',
    async (name) => {
      const { pool, transact } = await (WAYS[name] as () => Promise<Given>)();
      const { locks } = await startLocks(redis.url, { fence: true });
      const { opened: isOpen, open: goOn } = makeGate();
      const raise = (by: number) =>
        `UPDATE stock SET quantity = quantity + ${by} WHERE id = '${stock.product}'`;
      const waiting = isOpen.then(() => pool.query(raise(5)));
      const failed = locks.withLock(stock.key, () =>
        transact(async (send, giveBack) => {
          await send(raise(1));
          goOn();
          while (pool.waitingCount === 0) await sleep(5);
          await send('ROLLBACK');
          await giveBack();
          await waiting;
        }),
      );
      await Promise.allSettled([failed]);
      await waiting;
      expect(await stock.quantity()).toBe(105);
    },
  );
});

describe('the body rolls back', () => {
  const redis = useRedis();
  const postgres = usePostgres();
  const stock = useStock(postgres);

  interface Sale {
    /** Sends a statement in the transaction. */
    readonly send: (sql: string) => Promise<unknown>;
    /** Rolls back with the method of the library. */
    readonly rollBack: () => Promise<unknown>;
    /** Sends a statement outside a transaction; with MikroORM, through the EntityManager that was in one. */
    readonly sendBeside: (sql: string) => Promise<unknown>;
  }

  type Transact = (body: (sale: Sale) => Promise<unknown>) => Promise<unknown>;

  /** The libraries, each on a pool of one connection. */
  const LIBRARIES: Readonly<Record<string, () => Promise<Transact>>> = {
    Knex: async () => {
      const knex = knexOf({ client: 'pg', connection: postgres.url, pool: { min: 0, max: 1 } });
      afterTest(() => knex.destroy());
      const run = lockAwareTransactions<Knex.Transaction>({ pool: knex });
      return (body) =>
        run((wrap) =>
          knex.transaction((own) =>
            wrap(own, (tx) =>
              body({
                send: async (sql) => (await tx.raw(sql)) as unknown,
                rollBack: async () => tx.rollback(),
                sendBeside: async (sql) => (await knex.raw(sql)) as unknown,
              }),
            ),
          ),
        );
    },
    MikroORM: async () => {
      const orm = await MikroORM.init({
        entities: [],
        discovery: { warnWhenNoEntities: false },
        clientUrl: postgres.url,
        pool: { max: 1 },
      });
      afterTest(() => orm.close(true));
      const transact = await mikroOrmTransactionsOf(orm);
      return (body) =>
        transact((em) =>
          body({
            send: (sql) => em.execute(sql),
            rollBack: () => em.rollback(),
            sendBeside: (sql) => em.execute(sql),
          }),
        );
    },
    Sequelize: async () => {
      const sequelize = new Sequelize(postgres.url, { logging: false, pool: { max: 1 } });
      afterTest(() => sequelize.close());
      const transact = sequelizeTransactionsOf(sequelize);
      return (body) =>
        transact((transaction) =>
          body({
            send: (sql) => sequelize.query(sql, { transaction }),
            rollBack: () => transaction.rollback(),
            sendBeside: (sql) => sequelize.query(sql),
          }),
        );
    },
  };

  const sell = (): string =>
    `UPDATE stock SET quantity = quantity - 1 WHERE id = '${stock.product}'`;

  describe.each(Object.keys(LIBRARIES))('%s, if the body rolls back with a statement', (name) => {
    const start = async () => {
      const transact = await LIBRARIES[name]?.();
      const { locks } = await startLocks(redis.url, { fence: true });
      const sold = (body: (sale: Sale) => Promise<unknown>): Promise<unknown> =>
        locks.withLock(stock.key, async () => transact?.(body));
      return { sold, transact };
    };

    it('accepts no other statement of it', async () => {
      const { sold } = await start();
      const refused: unknown[] = [];
      const note = (error: unknown): unknown => refused.push(error);
      const sale = sold(async ({ send }) => {
        await send('ROLLBACK');
        await send(sell()).catch(note);
        await send('BEGIN').catch(note);
        await send(sell()).catch(note);
        await send('COMMIT').catch(note);
      });
      await expect(sale).rejects.toBeInstanceOf(LockInTransactionError);
      expect([refused.length, await stock.quantity()]).toEqual([4, 100]);
      expect(String(refused[0])).toMatch(/Its body has rolled it back with a statement of its own/);
    });

    it('accepts statements sent beside it after a rollback that the library knows of', async () => {
      const { sold } = await start();
      const refused: unknown[] = [];
      const sale = sold(async ({ send, rollBack, sendBeside }) => {
        await send(sell());
        await rollBack();
        await sendBeside(sell()).catch((error: unknown) => refused.push(error));
      });
      await sale.catch(() => {});
      // An EntityManager silently continues without its transaction.
      const isRefused = name === 'MikroORM';
      expect([refused.length, await stock.quantity()]).toEqual(isRefused ? [1, 100] : [0, 99]);
    });

    it('is not touched without a lock', async () => {
      const { transact } = await start();
      await transact?.(async ({ send }) => {
        await send('ROLLBACK');
        await send(sell());
      });
      expect(await stock.quantity()).toBe(99);
    });

    it('returns its connection usable', async () => {
      const { sold, transact } = await start();
      const pid = 'SELECT pg_backend_pid() AS pid';
      const pids: unknown[] = [];
      const failed = sold(async ({ send }) => {
        pids.push(pidIn(await send(pid)));
        await send('ROLLBACK');
        await send(sell());
      });
      await expect(failed).rejects.toThrow();
      await sold(async ({ send }) => {
        pids.push(pidIn(await send(pid)));
        await send(sell());
      });
      await transact?.(({ send }) => send(sell()));
      expect([pids[1], await stock.quantity()]).toEqual([pids[0], 98]);
    });
  });

  function pidIn(answer: unknown): string | undefined {
    return /"pid":(\d+)/.exec(JSON.stringify(answer))?.[1];
  }

  describe('a query runner of TypeORM driven manually, after a ROLLBACK of its body', () => {
    it.each(['commitTransaction', 'release'] as const)(
      'accepts nothing on its connection, and returns it usable by %s()',
      async (end) => {
        const dataSource = lockAwareDataSource(
          await openDataSource('postgres', postgres.settings, 1),
        );
        const { locks } = await startLocks(redis.url, { fence: true });
        const runner = dataSource.createQueryRunner();
        const client = (await runner.connect()) as Client;
        let refusal: unknown;
        const sale = locks.withLock(stock.key, async () => {
          await runner.startTransaction();
          await client.query('ROLLBACK');
          await client.query(sell()).catch((error: unknown) => (refusal = error));
          await runner[end]();
        });
        if (end === 'release') await sale;
        else await expect(sale).rejects.toBeInstanceOf(LockInTransactionError);
        expect(refusal).toBeInstanceOf(LockInTransactionError);
        await runner.release();
        const next = dataSource.createQueryRunner();
        expect(await next.connect()).toBe(client);
        await next.query(sell());
        await next.release();
        expect(await stock.quantity()).toBe(99);
      },
    );
  });
});
