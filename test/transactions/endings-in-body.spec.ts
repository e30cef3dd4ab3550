import { describe, expect, it } from '@jest/globals';
import { sql as textOf } from 'drizzle-orm';
import { drizzle as drizzleOnMySql2 } from 'drizzle-orm/mysql2';
import { drizzle as drizzleOnPg } from 'drizzle-orm/node-postgres';
import { drizzle as drizzleOnPostgresJs } from 'drizzle-orm/postgres-js';
import {
  createPool as createCallbackPool,
  type PoolConnection as CallbackConnection,
  type PrepareStatementInfo,
} from 'mysql2';
import { createPool, type PoolConnection } from 'mysql2/promise';
import { LockInTransactionError, LockLostError } from 'nestjs-locked';
import { lockAwareTransactions } from 'nestjs-locked/transactions';
import { lockAwareDataSource } from 'nestjs-locked/typeorm';
import { Pool } from 'pg';
import postgres from 'postgres';
import type { EntityManager } from 'typeorm';
import { afterTest } from '../support/after-test.js';
import { useMariaDb, usePostgres } from '../support/databases.js';
import { describeWithMariaDb } from '../support/describe-if.js';
import { useRedis } from '../support/shared-redis.js';
import { openDataSource } from './data-source.js';
import { startLocks } from './locks.js';
import { mysql2Transactions } from './mysql2-transactions.js';
import { inTransaction } from './recipes/postgres-js.js';
import { useStock } from './stock.js';

const redis = useRedis();

/** What a connection of mysql2/promise is made of. Its types say that this were another one of the same kind. */
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

  it('is told when it would commit by beginning another transaction', async () => {
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

  it('is given one client, whichever way it asks for it', async () => {
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

  /** Runs a body under a lock, on the only connection of a pool. */
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

  it('writes nothing if it ends its transaction by what promise() gives', async () => {
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

  it('sends nothing late by what promise() has given', async () => {
    let promised: PoolConnection | undefined;
    const { transacted, pool } = await transact(async (client) => {
      promised = client.promise();
      await promised.query(update, [stock.product]);
    });
    await transacted;
    const next = await pool.getConnection();
    await next.beginTransaction();
    await expect(promised?.query(update, [stock.product])).rejects.toThrow(LockInTransactionError);
    await next.commit();
    expect(await stock.quantity()).toBe(99);
  });

  it('sends no prepared statement after a ROLLBACK, nor late', async () => {
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
    await pool.query('SELECT 1'); // behind what would have been sent
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
          for await (const row of rows ?? []) void row; // it is sent when it is read
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

/** A transaction of Drizzle. */
interface DrizzleTx {
  execute(statement: ReturnType<typeof textOf.raw>): PromiseLike<unknown>;
}

/** Runs a body under a lock. */
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
  ])('fails with the reason, not with that of a query: %s', async (_, texts) => {
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
          await queryRunner.query('START TRANSACTION').catch((error: unknown) => (refusal = error));
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

  it('is warned of by the database, which begins nothing', async () => {
    const dataSource = lockAwareDataSource(await openDataSource('postgres', postgres.settings, 1));
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
