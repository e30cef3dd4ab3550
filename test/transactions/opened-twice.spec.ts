/** What opens a transaction may try again by itself, or open another one: what may be committed is not done twice. */
import { describe, expect, it } from '@jest/globals';
import { LockCommitUnknownError, LockInTransactionError } from 'nestjs-locked';
import { lockAwareTransactions } from 'nestjs-locked/transactions';
import { Pool, type PoolClient, type QueryResultRow } from 'pg';
import postgres, { type TransactionSql } from 'postgres';
import { afterTest } from '../support/after-test.js';
import { usePostgres } from '../support/databases.js';
import { useRedis } from '../support/shared-redis.js';
import { uniqueKey } from '../support/unique-key.js';
import { startLocks } from './locks.js';
import { inPgTransaction } from './pg-transaction.js';
import { useStock } from './stock.js';

const redis = useRedis();
const database = usePostgres();
const stock = useStock(database);

describe('an opener that tries again', () => {
  const start = async () => {
    const sql = postgres(database.url, { max: 1, onnotice: () => {} });
    afterTest(() => sql.end({ timeout: 0 }));
    const run = lockAwareTransactions<TransactionSql>({
      dialect: 'postgres',
      query: (tx, text, params) => tx.unsafe(text, params as never),
      survivesDisconnect: false,
    });
    const { locks } = await startLocks(redis.url);
    let runs = 0;
    const takeOne = async (tx: TransactionSql): Promise<void> => {
      runs++;
      await stock.takeOne({ query: (text, params: string[]) => tx.unsafe(text, params) });
    };
    return { sql, run, locks, takeOne, runs: () => runs };
  };

  it('is refused where nobody sees its COMMIT, which may be done', async () => {
    const { sql, run, locks, takeOne, runs } = await start();
    const sale = locks.withLock(stock.key, () =>
      run(async (wrap) => {
        await sql.begin((tx) => wrap(tx, takeOne)); // its answer was lost, as far as the opener knows
        await sql.begin((tx) => wrap(tx, takeOne));
      }),
    );
    await expect(sale).rejects.toBeInstanceOf(LockCommitUnknownError);
    expect([runs(), await stock.quantity()]).toEqual([1, 99]);
  });

  it('continues after a body that has failed', async () => {
    const { sql, run, locks, takeOne, runs } = await start();
    const failing = async (tx: TransactionSql): Promise<never> => {
      await takeOne(tx);
      throw new Error('no credit');
    };
    await locks.withLock(stock.key, () =>
      run<unknown>(async (wrap) => {
        await sql.begin((tx) => wrap(tx, failing)).catch(() => {});
        return sql.begin((tx) => wrap(tx, takeOne));
      }),
    );
    expect([runs(), await stock.quantity()]).toEqual([2, 99]);
  });

  it('continues under no lock, as without the library', async () => {
    const { sql, run, takeOne, runs } = await start();
    await run(async (wrap) => {
      await sql.begin((tx) => wrap(tx, takeOne));
      await sql.begin((tx) => wrap(tx, takeOne));
    });
    expect([runs(), await stock.quantity()]).toEqual([2, 98]);
  });

  it('has the first one not run again for a lock of the second, where nobody sees its COMMIT', async () => {
    const { sql, run, locks, takeOne, runs } = await start();
    const options = { insideTransaction: 'restart' } as const;
    const sale = run(async (wrap) => {
      await sql.begin((tx) => wrap(tx, takeOne));
      await sql.begin((tx) =>
        wrap(tx, (given) => locks.withLock(uniqueKey('late'), options, () => takeOne(given))),
      );
    });
    await expect(sale).rejects.toBeInstanceOf(LockInTransactionError);
    await expect(sale).rejects.toThrow(/call run\(…\) once for each transaction/);
    expect([runs(), await stock.quantity()]).toEqual([1, 99]);
  });
});

it.each(['under no lock', 'under a lock'])(
  'What opens two transactions %s has the first one not run again for a lock of the second',
  async (where) => {
    const pool = new Pool({ connectionString: database.url });
    afterTest(() => pool.end());
    const run = lockAwareTransactions<PoolClient>({ dialect: 'postgres', pool });
    const { locks } = await startLocks(redis.url, { insideTransaction: 'restart' });
    const takeOne = (tx: PoolClient): Promise<void> =>
      stock.takeOne({
        query: async (text, params: string[]) =>
          (await tx.query<QueryResultRow>(text, params)).rows,
      });
    const sell = (): Promise<void> =>
      run<void>(async (wrap) => {
        await inPgTransaction(pool, (client) => wrap(client, takeOne));
        await inPgTransaction(pool, (client) =>
          wrap(client, (tx) => locks.withLock(uniqueKey('late'), () => takeOne(tx))),
        );
      });
    const sale = where === 'under a lock' ? locks.withLock(stock.key, sell) : sell();
    await expect(sale).rejects.toBeInstanceOf(LockInTransactionError);
    await expect(sale).rejects.toThrow(/call run\(…\) once for each transaction/);
    expect(await stock.quantity()).toBe(99);
  },
);
