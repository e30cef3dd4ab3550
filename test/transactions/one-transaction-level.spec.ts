import { describe, expect, it } from '@jest/globals';
import { createPool } from 'mysql2/promise';
import type { LockService } from 'nestjs-locked';
import { LockInTransactionError } from 'nestjs-locked';
import { lockAwareTransactions, type TransactionGiven } from 'nestjs-locked/transactions';
import pg from 'pg';
import { Sequelize, type Transaction } from 'sequelize';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterTest } from '../support/after-test.js';
import { useMariaDb, usePostgres } from '../support/databases.js';
import { describeWithMariaDb } from '../support/describe-if.js';
import { useRedis } from '../support/shared-redis.js';
import { startLocks } from './locks.js';
import { mysql2Transactions } from './mysql2-transactions.js';
import { inPgTransaction } from './pg-transaction.js';
import { useStock } from './stock.js';

const SESSION = 'SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED';
const ONCE = 'SET TRANSACTION ISOLATION LEVEL REPEATABLE READ';

/** Both have read before the lock, and then sell one after the other. @returns why those failed that did */
async function bothSell(sell: () => Promise<unknown>): Promise<unknown[]> {
  const settled = await Promise.allSettled([sell(), sell()]);
  return settled.flatMap((one) => (one.status === 'rejected' ? [one.reason as unknown] : []));
}

describeWithMariaDb('A level that is set for one transaction of MariaDB', () => {
  const redis = useRedis();
  const database = useMariaDb();
  const stock = useStock(database, 'mysql');

  const byHand = (locks: () => LockService, before: string[], given?: TransactionGiven) => {
    const pool = createPool({ ...database.settings });
    afterTest(() => pool.end());
    const run = mysql2Transactions(pool);
    return () =>
      run(
        async (tx) => {
          await tx.query('SELECT * FROM stock');
          await locks().withLock(stock.key, () => {
            const query = async (sql: string, values: unknown[]): Promise<unknown> =>
              (await tx.query(sql, values))[0];
            return stock.takeOne({ query }, 30);
          });
        },
        { before: [SESSION, ...before], ...(given === undefined ? {} : { given }) },
      );
  };

  it.each([{}, { fence: true }])('is not known, so join loses no update: %j', async (options) => {
    const sell = byHand(() => locks, [ONCE]);
    const { locks } = await startLocks(redis.url, { insideTransaction: 'join', ...options });
    const failures = await bothSell(sell);
    expect(await stock.quantity()).toBe(98 + failures.length);
    for (const failure of failures) {
      expect(failure).toBeInstanceOf(LockInTransactionError);
      expect(String(failure)).toMatch(
        /level is not known.*\{ isolation \}\) of lockAwareTransactions/,
      );
    }
    expect(failures).toHaveLength(2);
  });

  it('is known if it is named, and then join continues, or is refused', async () => {
    const fresh = byHand(() => locks, [], { isolation: 'READ COMMITTED' });
    const old = byHand(() => locks, [ONCE], { isolation: 'REPEATABLE READ' });
    const { locks } = await startLocks(redis.url, { insideTransaction: 'join', fence: true });
    expect(await bothSell(fresh)).toEqual([]);
    expect(await stock.quantity()).toBe(98);
    expect(String((await bothSell(old))[0])).toMatch(/Its isolation level keeps the snapshot/);
    expect(await stock.quantity()).toBe(98);
  });

  it.each(['REPEATABLE READ', 'READ COMMITTED'])('is passed on by Sequelize: %s', async (level) => {
    const { host, port, user, password, database: name } = database.settings;
    const settings = { host, port, dialect: 'mysql', logging: false } as const;
    const sequelize = new Sequelize(name, user, password, settings);
    afterTest(() => sequelize.close());
    const run = lockAwareTransactions<Transaction>({
      dialect: 'mysql',
      query: (transaction, sql, replacements) =>
        sequelize.query(sql, { transaction, replacements }),
      pool: sequelize,
    });
    const { locks } = await startLocks(redis.url, { insideTransaction: 'join', fence: true });
    const isolationLevel = level as Transaction.ISOLATION_LEVELS;
    const sell = (): Promise<void> =>
      run<void>(
        (wrap) =>
          sequelize.transaction({ isolationLevel }, (transaction) =>
            wrap(transaction, async () => {
              await sequelize.query('SELECT * FROM stock', { transaction });
              const query = async (sql: string, replacements: unknown[]): Promise<unknown> =>
                (await sequelize.query(sql, { transaction, replacements }))[0];
              await locks.withLock(stock.key, () => stock.takeOne({ query }, 30));
            }),
          ),
        { isolation: isolationLevel },
      );
    const failures = await bothSell(sell);
    expect(failures).toHaveLength(level === 'READ COMMITTED' ? 0 : 2);
    expect(await stock.quantity()).toBe(98 + failures.length);
  });
});

describe('A level that the body sets for its transaction of PostgreSQL', () => {
  const redis = useRedis();
  const database = usePostgres();
  const stock = useStock(database);

  it('is requested, whatever was named when the transaction was opened', async () => {
    const pool = new pg.Pool({ connectionString: database.url });
    afterTest(() => pool.end());
    const run = lockAwareTransactions<pg.PoolClient>({ dialect: 'postgres', pool });
    const { locks } = await startLocks(redis.url, { insideTransaction: 'join' });
    const sell = (): Promise<void> =>
      run(
        (wrap) =>
          inPgTransaction(pool, (client) =>
            wrap(client, async (tx) => {
              await tx.query(ONCE);
              await tx.query('SELECT * FROM stock');
              await sleep(10);
              await locks.withLock(stock.key, () => stock.takeOne(tx, 30));
            }),
          ),
        { isolation: 'READ COMMITTED' },
      );
    const failures = await bothSell(sell);
    expect(failures.map(String)).toEqual(
      Array(2).fill(expect.stringMatching(/Its isolation level keeps the snapshot/)),
    );
    expect(await stock.quantity()).toBe(100);
  });
});
