import { describe, expect, it } from '@jest/globals';
import { lockAwareAdapter } from 'nestjs-locked/nestjs-cls';
import pg from 'pg';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterTest } from '../support/after-test.js';
import { usePostgres } from '../support/databases.js';
import { useRedis } from '../support/shared-redis.js';
import { startLocks } from '../transactions/locks.js';
import { transactionsOf } from '../transactions/recipes/node-postgres.js';
import { useStock } from '../transactions/stock.js';
import { type Body, clsOrm, openPool } from './cls-orm.js';
import { describeLockContract } from './lock-contract.js';

describeLockContract(
  {
    name: 'node-postgres',
    open: async (url) => {
      const pool = new pg.Pool({ connectionString: url });
      pool.on('error', () => {});
      const inTransaction = transactionsOf(pool);
      return {
        transaction: (body, isolation) =>
          inTransaction(
            async (client) =>
              body({
                query: async (sql, params: unknown[]) =>
                  (await client.query<Record<string, unknown>>(sql, params)).rows,
              }),
            isolation === undefined ? 'BEGIN' : `BEGIN ISOLATION LEVEL ${isolation}`,
          ),
        close: () => pool.end(),
      };
    },
  },
  { roundTrips: 0 },
);

describe('an adapter for a pool of node-postgres', () => {
  const redis = useRedis();
  const postgres = usePostgres();
  const stock = useStock(postgres);

  /** No code listens for errors of its clients. */
  const ADAPTER = clsOrm('node-postgres', (url) => {
    const connection = openPool(url);
    const optionsFactory = (pool: pg.Pool) => ({
      wrapWithTransaction: async (
        _: object,
        body: Body,
        setTx: (tx: pg.PoolClient) => void,
      ): Promise<unknown> => {
        const client = await pool.connect();
        try {
          await client.query('BEGIN');
          setTx(client);
          const result: unknown = await body();
          await client.query('COMMIT');
          return result;
        } finally {
          client.release(true);
        }
      },
      getFallbackInstance: () => pool,
    });
    return {
      adapter: lockAwareAdapter({ connection, optionsFactory }, { dialect: 'postgres' }),
      isolated: () => ({}),
      runs: (tx: pg.PoolClient) => ({
        query: async (sql, params) => (await tx.query<pg.QueryResultRow>(sql, params)).rows,
      }),
      close: () => connection.end(),
    };
  });

  it('survives when a time-out ends a transaction, and names the time-out', async () => {
    const orm = await ADAPTER.open(postgres.url);
    afterTest(() => orm.close());
    const { locks } = await startLocks(redis.url, {
      fence: {},
      transactionTimeouts: { idleMs: 150 },
    });
    const sale = locks.withLock(stock.key, () =>
      orm.transaction(async (tx) => {
        await sleep(500);
        await stock.takeOne(tx);
      }),
    );
    await expect(sale).rejects.toThrow(/transactionTimeouts: idleMs 150/);
    expect(await stock.quantity()).toBe(100);
  });
});
