import { describe, expect, it } from '@jest/globals';
import { createPool, type PoolConnection } from 'mysql2/promise';
import { LockInTransactionError } from 'nestjs-locked';
import { lockAware } from 'nestjs-locked/typeorm';
import postgres from 'postgres';
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
  ])('writes nothing: %s', async (_, end) => {
    await sell(end);
    expect(await stock.quantity()).toBe(100);
  });

  it('gets a refused commit() as the error of its promise', async () => {
    let refusal: unknown;
    await sell((client) => client.commit().catch((error: unknown) => (refusal = error)));
    expect(refusal).toBeInstanceOf(LockInTransactionError);
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
    const dataSource = lockAware(await openDataSource(type, database.settings, 1));
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
