import { describe, expect, it } from '@jest/globals';
import { drizzle, type NodePgDatabase } from 'drizzle-orm/node-postgres';
import { createPool } from 'mysql2/promise';
import { LockInTransactionError } from 'nestjs-locked';
import { lockAwareTransactions } from 'nestjs-locked/transactions';
import pg from 'pg';
import pgPromise from 'pg-promise';
import postgres from 'postgres';
import { afterTest } from '../support/after-test.js';
import { type TestDatabase, useMariaDb, usePostgres } from '../support/databases.js';
import { describeWithMariaDb } from '../support/describe-if.js';
import { makeGate } from '../support/gate.js';
import { useRedis } from '../support/shared-redis.js';
import { uniqueKey } from '../support/unique-key.js';
import { drizzleRuns } from './drizzle-runs.js';
import { startLocks } from './locks.js';
import { mysql2Transactions } from './mysql2-transactions.js';
import { transactionsOf } from './recipes/node-postgres.js';
import { inTransaction } from './recipes/postgres-js.js';

/** A transaction of any library. */
interface Tx {
  send(sql: string): Promise<unknown>;
  /** A part of it in a savepoint; undone as the library, or its users, undo it. */
  part(work: (part: Tx) => Promise<void>): Promise<unknown>;
}

type Transaction = (work: (tx: Tx) => Promise<unknown>) => Promise<unknown>;

/** What a branch is told about its own rollback; empty if it has not requested one. */
type Refusals = unknown[];

/** Opens transactions on a pool of one connection. */
type Open = (url: string, refusals: Refusals) => Transaction;

/** What people write around a driver that knows no savepoints. */
function byHand(send: Tx['send'], undo: string, refusals: Refusals): Tx {
  const tx: Tx = {
    send,
    part: async (work) => {
      await send('SAVEPOINT sp');
      try {
        await work(tx);
        await send('RELEASE SAVEPOINT sp');
      } catch (error) {
        await send(undo).catch((refused: unknown) => refusals.push(refused));
        throw error;
      }
    },
  };
  return tx;
}

const onNodePostgres =
  (undo: string): Open =>
  (url, refusals) => {
    const run = transactionsOf(openPool(url));
    return (work) => run((client) => work(byHand((sql) => client.query(sql), undo, refusals)));
  };

function openPool(url: string): pg.Pool {
  const pool = new pg.Pool({ connectionString: url, max: 1 });
  pool.on('error', () => {});
  afterTest(() => pool.end());
  return pool;
}

const onMySql2 =
  (undo: string): Open =>
  (uri, refusals) => {
    const pool = createPool({ uri, connectionLimit: 1 });
    afterTest(() => pool.end());
    const run = mysql2Transactions(pool);
    return (work) => run((client) => work(byHand((sql) => client.query(sql), undo, refusals)));
  };

type Drizzle = ReturnType<typeof drizzle>;
type DrizzleTx = Parameters<Parameters<Drizzle['transaction']>[0]>[0];

const onDrizzle: Open = (url) => {
  const database = drizzle(openPool(url));
  const run = lockAwareTransactions<DrizzleTx>();
  const known = (tx: DrizzleTx): Tx => ({
    send: (sql) => drizzleRuns(tx as unknown as NodePgDatabase).query(sql, []),
    part: (work) => tx.transaction((part) => work(known(part))),
  });
  return (work) =>
    run((wrap) => database.transaction((opened) => wrap(opened, (tx) => work(known(tx)))));
};

const onPostgresJs: Open = (url) => {
  const sql = postgres(url, { max: 1, onnotice: () => {} });
  afterTest(() => sql.end({ timeout: 0 }));
  const known = (tx: postgres.TransactionSql): Tx => ({
    send: (text) => tx.unsafe(text),
    part: (work) => tx.savepoint((part) => work(known(part))),
  });
  return (work) => inTransaction(sql, (tx) => work(known(tx)));
};

const onPgPromise: Open = (url) => {
  const database = pgPromise({ noWarnings: true })({ connectionString: url, max: 1 });
  afterTest(() => database.$pool.end());
  type Task = pgPromise.ITask<object>;
  const run = lockAwareTransactions<Task>({ pool: database.$pool });
  const known = (tx: Task): Tx => ({
    send: (text) => tx.none(text),
    part: (work) => tx.tx((part) => work(known(part))),
  });
  return (work) => run((wrap) => database.tx((opened) => wrap(opened, (tx) => work(known(tx)))));
};

const redis = useRedis();

function describeLateRollbacks(
  useDatabase: () => TestDatabase,
  libraries: readonly (readonly [string, Open])[],
): void {
  const database = useDatabase();

  describe.each(libraries)('%s', (_, open) => {
    const start = async () => {
      await database.query('DROP TABLE IF EXISTS note');
      await database.query('CREATE TABLE note (text varchar(40))');
      const refusals: Refusals = [];
      const { locks } = await startLocks(redis.url);
      const notes = async (): Promise<string[]> => {
        const rows = await database.query<{ text: string }>('SELECT text FROM note ORDER BY text');
        return rows.map(({ text }) => text);
      };
      return { locks, notes, refusals, transaction: open(database.url, refusals) };
    };
    const note = (tx: Tx, text: string): Promise<unknown> =>
      tx.send(`INSERT INTO note VALUES ('${text}')`);

    it.each([true, false])(
      'undoes nothing of the next transaction on its connection (the first one fails: %s)',
      async (fails) => {
        const { locks, notes, transaction, refusals } = await start();
        const [begun, second] = [makeGate(), makeGate()];
        let late: Promise<unknown> | undefined;
        const first = locks.withLock(uniqueKey('first'), () =>
          transaction(async (tx) => {
            late = tx.part(async (part) => {
              begun.open();
              await second.opened;
              await note(part, 'late');
            });
            late.catch(() => {});
            await begun.opened;
            if (fails) throw new Error('the other branch has failed');
          }),
        );
        await (fails ? expect(first).rejects.toThrow('the other branch has failed') : first);
        await transaction(async (tx) => {
          await note(tx, 'a');
          await tx.part(async (part) => {
            await note(part, 'b');
            second.open();
            await expect(late).rejects.toThrow();
            await note(part, 'c');
          });
        });
        expect(await notes()).toEqual(['a', 'b', 'c']);
        for (const refusal of refusals) expect(refusal).toBeInstanceOf(LockInTransactionError);
      },
    );

    it('undoes nothing of the next run of its transaction', async () => {
      const { locks, notes, transaction } = await start();
      const again = makeGate();
      const key = uniqueKey('restart');
      let runs = 0;
      let late: Promise<unknown> | undefined;
      await transaction(async (tx) => {
        if (++runs === 1) {
          const begun = makeGate();
          late = tx.part(async (part) => {
            begun.open();
            await again.opened;
            await note(part, 'late');
          });
          late.catch(() => {});
          await begun.opened;
        }
        await locks.withLock(key, { insideTransaction: 'restart' }, async () => {
          await note(tx, 'a');
          await tx.part(async (part) => {
            await note(part, 'b');
            again.open();
            await expect(late).rejects.toThrow();
          });
          await note(tx, 'c');
        });
      });
      expect(runs).toBe(2);
      expect(await notes()).toEqual(['a', 'b', 'c']);
    });
  });
}

describe('a late rollback of a branch on PostgreSQL', () => {
  describeLateRollbacks(usePostgres, [
    ['ROLLBACK TO SAVEPOINT of node-postgres', onNodePostgres('ROLLBACK TO SAVEPOINT sp')],
    ['ROLLBACK of node-postgres', onNodePostgres('ROLLBACK')],
    ['a nested transaction of Drizzle', onDrizzle],
    ['a savepoint of postgres.js', onPostgresJs],
    ['a nested transaction of pg-promise', onPgPromise],
  ]);
});

describeWithMariaDb('a late rollback of a branch on MariaDB', () => {
  describeLateRollbacks(useMariaDb, [
    ['ROLLBACK TO SAVEPOINT of mysql2', onMySql2('ROLLBACK TO SAVEPOINT sp')],
    ['ROLLBACK of mysql2', onMySql2('ROLLBACK')],
  ]);
});
