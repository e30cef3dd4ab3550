/** Steps of the wall clock while a transaction is open. Only Redis knows whether the lease has ended. */
import { describe, expect, it } from '@jest/globals';
import pg from 'pg';
import { lockAwareTransactions } from '../../libs/nestjs-locked/src/transactions/index.js';
import { afterTest } from '../support/after-test.js';
import { usePostgres } from '../support/databases.js';
import { openAdmin, openLocks } from '../support/open-locks.js';
import { useRedis } from '../support/shared-redis.js';
import { SteppedClock } from '../support/stepped-clock.js';
import { inPgTransaction } from './pg-transaction.js';
import { useStock } from './stock.js';

const AN_HOUR_MS = 3_600_000;

async function rowsOf(
  client: pg.ClientBase,
  sql: string,
  params: unknown[],
): Promise<pg.QueryResultRow[]> {
  return (await client.query<pg.QueryResultRow>(sql, params)).rows;
}

describe('a clock that is set while a transaction is open', () => {
  const redis = useRedis();
  const postgres = usePostgres();
  const stock = useStock(postgres);

  const start = async (fence: boolean) => {
    const clock = new SteppedClock();
    const { engine, events } = await openLocks(redis.url, { clock, ...(fence ? { fence } : {}) });
    const pool = new pg.Pool({ connectionString: postgres.url });
    afterTest(() => pool.end());
    const run = lockAwareTransactions<pg.PoolClient>({ dialect: 'postgres', pool });
    let suspected = false;
    /** Sells, and steps the clock in the body or between the gate and the COMMIT. */
    const sell = (where: 'body' | 'hook', meanwhile = async (): Promise<void> => {}) => {
      const step = async (isHeld: () => boolean): Promise<void> => {
        await meanwhile();
        clock.offsetMs += AN_HOUR_MS;
        suspected = !isHeld();
      };
      return engine.withLock(stock.key, {}, (lock) =>
        run((wrap) =>
          inPgTransaction(pool, async (client) => {
            await wrap(client, async (tx) => {
              await stock.takeOne({ query: (sql, p) => rowsOf(tx, sql, p) }, 0);
              if (where === 'body') await step(() => lock.isHeld);
            });
            if (where === 'hook') await step(() => lock.isHeld);
          }),
        ),
      );
    };
    return { events, sell, wasSuspect: () => suspected };
  };
  const somebodyElseEnters = async (): Promise<void> =>
    void (await openAdmin(redis.url).set(`lock:{${stock.key}}`, 'somebody else', 'PX', 5_000));

  it.each([false, true])('does no harm if the lease continues (fence: %s)', async (fence) => {
    const { sell, events, wasSuspect } = await start(fence);
    await sell('body');
    expect([wasSuspect(), await stock.quantity()]).toEqual([true, 99]);
    expect(events).toEqual([]);
  });

  it('does no harm while the gate asks the database', async () => {
    const clock = new SteppedClock();
    const { engine } = await openLocks(redis.url, { clock });
    const client = new pg.Client({ connectionString: postgres.url });
    await client.connect();
    afterTest(() => client.end());
    const query = async (_: object, sql: string, params: unknown[]): Promise<unknown[]> => {
      const rows = await rowsOf(client, sql, params);
      if (sql.includes('statement_timestamp')) clock.offsetMs += AN_HOUR_MS;
      return rows;
    };
    const run = lockAwareTransactions({ dialect: 'postgres', query });
    await engine.withLock(stock.key, {}, () =>
      run(async (wrap) => {
        await client.query('BEGIN');
        await wrap({}, (tx) => stock.takeOne({ query: (sql, p) => query(tx, sql, p) }, 0));
        await client.query('COMMIT');
      }),
    );
    expect([clock.offsetMs, await stock.quantity()]).toEqual([AN_HOUR_MS, 99]);
  });

  it('prevents the commit if somebody else has entered', async () => {
    const { sell, wasSuspect } = await start(false);
    await expect(sell('body', somebodyElseEnters)).rejects.toMatchObject({ code: 'LOCK_LOST' });
    expect([wasSuspect(), await stock.quantity()]).toEqual([true, 100]);
  });

  it('sends no COMMIT in doubt after the gate', async () => {
    const { sell, wasSuspect } = await start(false);
    const sale = sell('hook', somebodyElseEnters);
    await expect(sale).rejects.toMatchObject({ code: expect.stringMatching(/LOST|STORE_FAILED/) });
    expect([wasSuspect(), await stock.quantity()]).toEqual([true, 100]);
  });
});
