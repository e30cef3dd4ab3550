import { describe, expect, it } from '@jest/globals';
import { LockCommitUnknownError } from 'nestjs-locked';
import { lockAwareTransactions } from 'nestjs-locked/transactions';
import pg from 'pg';
import { afterTest } from '../support/after-test.js';
import { usePostgres } from '../support/databases.js';
import { useRedis } from '../support/shared-redis.js';
import { isHeld, startLocks } from './locks.js';
import { useStock } from './stock.js';

const redis = useRedis();

const rowsFrom =
  (client: pg.PoolClient) =>
  async (sql: string, params: unknown[]): Promise<unknown[]> =>
    (await client.query<pg.QueryResultRow>(sql, params)).rows;

describe('code that swallows the error of its COMMIT, or does not await the answer', () => {
  const postgres = usePostgres();
  const stock = useStock(postgres);

  /** Sells, and says that it has, whatever becomes of the COMMIT. */
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

  it('is told that the database has refused it', async () => {
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
      'its connection has died under the COMMIT',
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

  it.each(doubts)('keeps the lock as long as its lease, because %s', async (_, commit) => {
    const answer = await sell(commit);
    expect(answer).toEqual({ told: expect.any(LockCommitUnknownError), isHeld: true });
  });
});
