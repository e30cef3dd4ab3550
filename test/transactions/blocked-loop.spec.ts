/** A transaction whose body blocks the event loop for longer than the lease, with and without `renewFrom: 'worker'`. */
import { describe, expect, it } from '@jest/globals';
import pg from 'pg';
import { lockAwareTransactions } from '../../libs/nestjs-locked/src/transactions/index.js';
import { afterTest } from '../support/after-test.js';
import { usePostgres } from '../support/databases.js';
import { openLocks, type OpenOptions } from '../support/open-locks.js';
import { useRedis } from '../support/shared-redis.js';
import { standStill } from '../support/stand-still.js';
import { inPgTransaction } from './pg-transaction.js';
import { useStock } from './stock.js';

const LEASE_MS = 1_000;

describe('a transaction that blocks the event loop for two and a half leases', () => {
  const redis = useRedis();
  const postgres = usePostgres();
  const stock = useStock(postgres);

  /** Sells, and blocks the event loop in the body, or between the gate and the COMMIT. */
  async function sell(where: 'body' | 'hook', options: OpenOptions): Promise<void> {
    const { engine } = await openLocks(redis.url, { leaseMs: LEASE_MS, ...options });
    const pool = new pg.Pool({ connectionString: postgres.url });
    pool.on('error', () => {}); // PostgreSQL ends a connection that is idle for too long
    afterTest(() => pool.end());
    const run = lockAwareTransactions<pg.PoolClient>({ dialect: 'postgres', pool });
    await engine.withLock(stock.key, {}, () =>
      run((wrap) =>
        inPgTransaction(pool, async (client) => {
          await wrap(client, async (tx) => {
            const query = async (sql: string, params: unknown[]): Promise<pg.QueryResultRow[]> =>
              (await tx.query<pg.QueryResultRow>(sql, params)).rows;
            await stock.takeOne({ query }, 0);
            if (where === 'body') standStill(2.5 * LEASE_MS);
          });
          if (where === 'hook') standStill(2.5 * LEASE_MS);
        }),
      ),
    );
  }

  it.each(['body', 'hook'] as const)('is committed: in its %s', async (where) => {
    await sell(where, { renewFrom: 'worker' });
    expect(await stock.quantity()).toBe(99);
  });

  it('is vetoed without a worker thread', async () => {
    await expect(sell('body', {})).rejects.toMatchObject({ code: 'LOCK_LOST' });
    expect(await stock.quantity()).toBe(100);
  });

  it('is ended by PostgreSQL where that has its limits: nothing is written', async () => {
    const options = { renewFrom: 'worker', transactionTimeouts: true } as const;
    await expect(sell('body', options)).rejects.toThrow();
    expect(await stock.quantity()).toBe(100);
  });
});
