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

describe('a COMMIT among other statements in one text, one of which fails', () => {
  const postgres = usePostgres();
  const stock = useStock(postgres);

  /** @param end sends what ends the transaction */
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
