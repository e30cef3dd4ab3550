import { describe, expect, it } from '@jest/globals';
import { createPool, type PoolConnection } from 'mysql2/promise';
import { LockInTransactionError } from 'nestjs-locked';
import { lockAwareTransactions } from 'nestjs-locked/transactions';
import pg from 'pg';
import { afterTest } from '../support/after-test.js';
import { useMariaDb, usePostgres } from '../support/databases.js';
import { describeWithMariaDb } from '../support/describe-if.js';
import { makeGate } from '../support/gate.js';
import { useRedis } from '../support/shared-redis.js';
import { startLocks } from './locks.js';
import { useStock } from './stock.js';

const redis = useRedis();

/** A branch of a body, which has not awaited it. */
interface Branch {
  /** The body is done, and the COMMIT is not sent yet. */
  readonly isDue: Promise<void>;
  /** Lets it work, and waits for it. */
  goOn(): Promise<void>;
  /** What it was told. */
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

  it('leaves the opener free to roll back', async () => {
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
          await tx.query('UPDATE stock SET quantity = quantity - 1 WHERE id = ?', [stock.product]);
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
