import { describe, expect, it } from '@jest/globals';
import { createPool } from 'mysql2/promise';
import { LockInTransactionError } from 'nestjs-locked';
import { lockAwareTransactions } from 'nestjs-locked/transactions';
import pg from 'pg';
import pgPromise from 'pg-promise';
import postgres from 'postgres';
import { afterTest } from '../support/after-test.js';
import { useMariaDb, usePostgres } from '../support/databases.js';
import { describeWithMariaDb } from '../support/describe-if.js';
import { useRedis } from '../support/shared-redis.js';
import { uniqueKey } from '../support/unique-key.js';
import { startLocks } from './locks.js';
import { mysql2Transactions } from './mysql2-transactions.js';
import { transactionsOf } from './recipes/node-postgres.js';
import { inTransaction } from './recipes/postgres-js.js';

const redis = useRedis();

/** Runs it in a transaction under a lock. */
async function underLock<T>(run: () => Promise<T>): Promise<T> {
  const { locks } = await startLocks(redis.url);
  return locks.withLock(uniqueKey('words'), run);
}

describe('a value that begins like the end of a transaction is no statement', () => {
  const database = usePostgres();

  const prepare = async (): Promise<void> => {
    await database.query('DROP TABLE IF EXISTS message');
    await database.query('CREATE TABLE message (text text, "end" int, meta jsonb, tags text[])');
  };
  const written = () => database.query('SELECT * FROM message');

  describe('with postgres.js', () => {
    const inOne = async (work: (tx: postgres.TransactionSql) => Promise<unknown>) => {
      const sql = postgres(database.url, { max: 1, onnotice: () => {} });
      afterTest(() => sql.end({ timeout: 0 }));
      await prepare();
      return underLock(() => inTransaction(sql, (tx) => work(tx)));
    };
    type Insert = (tx: postgres.TransactionSql) => Promise<unknown>;

    it.each<[string, object, Insert]>([
      [
        'in the columns of a row',
        { text: 'End of the meeting' },
        (tx) => tx`INSERT INTO message ${tx({ text: 'End of the meeting' })}`,
      ],
      [
        'in rows',
        { text: 'Rollback it' },
        (tx) => tx`INSERT INTO message ${tx([{ text: 'Rollback it' }])}`,
      ],
      [
        'in JSON',
        { meta: { text: 'Commit to it' } },
        (tx) => tx`INSERT INTO message (meta) VALUES (${tx.json({ text: 'Commit to it' })})`,
      ],
      [
        'in an array',
        { tags: ['end'] },
        (tx) => tx`INSERT INTO message (tags) VALUES (${tx.array(['end'])})`,
      ],
      [
        'as the name of a column',
        { end: 1 },
        (tx) => tx`INSERT INTO message (${tx('end')}) VALUES (1)`,
      ],
      [
        'as a part of a statement',
        { end: 1 },
        (tx) => tx`INSERT INTO message ("end") VALUES (CASE WHEN true THEN 1 ${tx`END`})`,
      ],
      [
        'in a savepoint',
        { text: 'commit' },
        (tx) => tx.savepoint((part) => part`INSERT INTO message ${part({ text: 'commit' })}`),
      ],
    ])('%s', async (_, row, insert) => {
      await inOne(insert);
      expect(await written()).toMatchObject([row]);
    });

    it.each<[string, Insert]>([
      ['a template', (tx) => tx`COMMIT`],
      ['a plain text', (tx) => tx.unsafe('COMMIT')],
      ['parts of a template', (tx) => tx`${tx`COMMIT`}`],
      ['a cursor', (tx) => tx`COMMIT`.cursor(1, () => {})],
      ['a template in a savepoint', (tx) => tx.savepoint((part) => part`COMMIT`)],
    ])('but a COMMIT is, as %s', async (_, commit) => {
      const committed = inOne(async (tx) => {
        await tx`INSERT INTO message ("end") VALUES (1)`;
        await commit(tx);
      });
      await expect(committed).rejects.toBeInstanceOf(LockInTransactionError);
      expect(await written()).toEqual([]);
    });
  });

  it('with node-postgres, when it is escaped', async () => {
    const pool = new pg.Pool({ connectionString: database.url });
    afterTest(() => pool.end());
    await prepare();
    await underLock(() =>
      transactionsOf(pool)((client) => {
        const [column, text] = [client.escapeIdentifier('end'), client.escapeLiteral('End of it')];
        return client.query(`INSERT INTO message (text, ${column}) VALUES (${text}, 1)`);
      }),
    );
    expect(await written()).toMatchObject([{ text: 'End of it', end: 1 }]);
  });

  describe('with pg-promise', () => {
    type Task = pgPromise.ITask<object>;
    const inOne = async (work: (tx: Task) => Promise<unknown>) => {
      const db = pgPromise({ noWarnings: true })({ connectionString: database.url });
      afterTest(() => db.$pool.end());
      await prepare();
      const run = lockAwareTransactions<Task>({ dialect: 'postgres' });
      return underLock(() => run((wrap) => db.tx((tx) => wrap(tx, work))));
    };
    const insert = (tx: Task) => tx.none('INSERT INTO message ("end") VALUES (1)');

    it('as the name of a task or of a part of the transaction', async () => {
      await inOne(async (tx) => {
        await tx.task('commit order', insert);
        await tx.tx('end', insert);
      });
      expect(await written()).toHaveLength(2);
    });

    it.each<[string, (tx: Task) => Promise<unknown>]>([
      ['for none()', (tx) => tx.none('COMMIT')],
      ['for multi()', (tx) => tx.multi('SELECT 1; COMMIT')],
      ['in a task', (tx) => tx.task('part', (part) => part.any('END'))],
    ])('but a COMMIT is, %s', async (_, commit) => {
      const committed = inOne(async (tx) => {
        await insert(tx);
        await commit(tx);
      });
      await expect(committed).rejects.toBeInstanceOf(LockInTransactionError);
      expect(await written()).toEqual([]);
    });
  });
});

describeWithMariaDb('a value for mysql2 that begins like the end of a transaction', () => {
  const database = useMariaDb();

  it('is no statement, when it is escaped', async () => {
    const pool = createPool(database.url);
    afterTest(() => pool.end());
    await database.query('CREATE TABLE message (text text)');
    await underLock(() =>
      mysql2Transactions(pool)(async (tx) => {
        await tx.query(`INSERT INTO message VALUES (${tx.escape('End of it')})`);
        await tx.query(tx.format('INSERT INTO message VALUES (?)', ['commit']));
      }),
    );
    expect(await database.query('SELECT text FROM message ORDER BY text')).toEqual([
      { text: 'commit' },
      { text: 'End of it' },
    ]);
  });
});
