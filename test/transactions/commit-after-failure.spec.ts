import { describe, expect, it } from '@jest/globals';
import { LockInTransactionError, LockLostError } from 'nestjs-locked';
import { lockAwareTransactions } from 'nestjs-locked/transactions';
import pg from 'pg';
import { afterTest } from '../support/after-test.js';
import { usePostgres } from '../support/databases.js';
import { eventually } from '../support/eventually.js';
import { useRedis } from '../support/shared-redis.js';
import { isHeld, startLocks } from './locks.js';
import { useStock } from './stock.js';

const redis = useRedis();
const postgres = usePostgres();
const stock = useStock(postgres);

/** What the code that opens the transaction does: it continues after the failure, and commits. */
async function openAll() {
  const pool = new pg.Pool({ connectionString: postgres.url, max: 1 });
  afterTest(() => pool.end());
  const run = lockAwareTransactions<pg.PoolClient>({ dialect: 'postgres', pool });
  const { locks } = await startLocks(redis.url);
  /** What its COMMIT was told. */
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
          await tx.query('UPDATE stock SET quantity = quantity - 1 WHERE id = $1', [stock.product]);
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
  /** Somebody who has the same connection next. */
  const nextUser = (): Promise<unknown> =>
    pool.query('UPDATE stock SET quantity = quantity - 10 WHERE id = $1', [stock.product]);
  return { locks, sell, nextUser, commitWasTold: () => told };
}

const outOfCredit = (): Promise<never> => Promise.reject(new Error('out of credit'));

describe('a COMMIT by code that has swallowed the failure of its transaction', () => {
  it.each([true, false])(
    'is refused after a failure of the body, also if that is swallowed: %s',
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
