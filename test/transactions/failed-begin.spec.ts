import { describe, expect, it } from '@jest/globals';
import { lockAwareTransactions } from 'nestjs-locked/transactions';
import pg from 'pg';
import { afterTest } from '../support/after-test.js';
import { usePostgres } from '../support/databases.js';
import { useRedis } from '../support/shared-redis.js';
import { startLocks } from './locks.js';
import { useStock } from './stock.js';

describe('a BEGIN that PostgreSQL refuses', () => {
  const redis = useRedis();
  const postgres = usePostgres();
  const stock = useStock(postgres);

  /** Runs a transaction under the lock, on a pool with one client. */
  const start = async () => {
    const pool = new pg.Pool({ connectionString: postgres.url, max: 1 });
    afterTest(() => pool.end());
    const run = lockAwareTransactions<pg.PoolClient>({ dialect: 'postgres', pool });
    const { locks } = await startLocks(redis.url, { fence: {} });
    const takeOne = (client: pg.PoolClient): Promise<unknown> =>
      client.query('UPDATE stock SET quantity = quantity - 1 WHERE id = $1', [stock.product]);
    const told: string[] = [];
    /** Swallows the error, as hooks do. */
    const swallowing = (sent: Promise<unknown>): Promise<unknown> =>
      sent.catch((error: Error) => told.push(error.message));
    const sell = (
      open: (client: pg.PoolClient, body: () => Promise<unknown>) => Promise<unknown>,
    ): Promise<unknown> =>
      locks.withLock(stock.key, () =>
        run(async (wrap) => {
          const client = await pool.connect();
          try {
            return await open(client, () => wrap(client, takeOne));
          } finally {
            client.release();
          }
        }),
      );
    return { pool, sell, takeOne, told, swallowing };
  };
  const SYNTAX = expect.stringContaining('syntax error');

  it('lets no statement through after the claim that carried it, whoever swallows the error', async () => {
    const { pool, sell, takeOne, told, swallowing } = await start();
    const sale = sell(async (client, body) => {
      await client.query('BEGIN ISOLATION LEVEL NONSENSE');
      await swallowing(body());
      await swallowing(takeOne(client));
      await swallowing(client.query('COMMIT'));
      await client.query('ROLLBACK');
    });
    await sale; // the opener has swallowed everything
    expect(told).toEqual([SYNTAX, SYNTAX, SYNTAX]);
    expect([await stock.quantity(), await stock.fence()]).toEqual([100, NaN]);
    await pool.query('UPDATE stock SET quantity = 7 WHERE id = $1', [stock.product]);
    expect(await stock.quantity()).toBe(7); // the client is as before
  });

  it('lets neither the claim nor the body run after a statement before them', async () => {
    const { pool, sell, told, swallowing, takeOne } = await start();
    const sale = sell(async (client, body) => {
      await client.query('BEGIN ISOLATION LEVEL NONSENSE');
      await swallowing(client.query(`SET LOCAL application_name = 'hook'`));
      await swallowing(body());
      await swallowing(takeOne(client));
      await client.query('ROLLBACK');
    });
    await sale; // the opener has swallowed everything
    expect(told).toEqual([SYNTAX, SYNTAX, SYNTAX]);
    expect([await stock.quantity(), await stock.fence()]).toEqual([100, NaN]);
    await pool.query('UPDATE stock SET quantity = 7 WHERE id = $1', [stock.product]);
    expect(await stock.quantity()).toBe(7);
  });

  it('is forgotten with its transaction, even if nobody has rolled that back', async () => {
    const { sell, told, swallowing } = await start();
    const sale = sell(async (client, body) => {
      await client.query('BEGIN ISOLATION LEVEL NONSENSE');
      await swallowing(body());
    });
    await sale; // the opener has swallowed everything
    expect(told).toEqual([SYNTAX]);
    await sell(async (client, body) => {
      await client.query('BEGIN');
      await body();
      await client.query('COMMIT');
    });
    expect(await stock.quantity()).toBe(99);
  });
});
