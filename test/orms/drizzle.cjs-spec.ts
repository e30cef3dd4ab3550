import { describe, expect, it } from '@jest/globals';
import { TransactionalAdapterDrizzleOrm } from '@nestjs-cls/transactional-adapter-drizzle-orm';
import { sql } from 'drizzle-orm';
import { drizzle as drizzlePostgresJs } from 'drizzle-orm/postgres-js';
import { drizzle as drizzleSqlJs } from 'drizzle-orm/sql-js';
import { LockConfigError } from 'nestjs-locked';
import { lockAwareAdapter } from 'nestjs-locked/nestjs-cls';
import { lockAwareTransactions } from 'nestjs-locked/transactions';
import postgres from 'postgres';
import { afterTest } from '../support/after-test.js';
import { usePostgres } from '../support/databases.js';
import { useRedis } from '../support/shared-redis.js';
import { startLocks } from '../transactions/locks.js';
import { type Runs, useStock } from '../transactions/stock.js';
import { clsOrm } from './cls-orm.js';
import { DRIZZLE } from './drizzle-with-cls.js';
import { describeLockContract } from './lock-contract.js';
import { describePropagation } from './propagation-suite.js';

describeLockContract(DRIZZLE, { roundTrips: 0 });
describePropagation(DRIZZLE);

describe('Drizzle on a synchronous driver', () => {
  /** A client that records statements instead of passing them to SQLite. */
  const openSync = () => {
    const statements: string[] = [];
    const statement = { run: () => {}, free: () => {} };
    const client = {
      prepare: (text: string) => {
        statements.push(text);
        return statement;
      },
    };
    return { statements, database: drizzleSqlJs(client as never) };
  };
  const adapter = () =>
    new TransactionalAdapterDrizzleOrm<ReturnType<typeof openSync>['database']>({
      drizzleInstanceToken: 'drizzle',
    });

  it('runs an asynchronous body outside of its transaction', async () => {
    const { statements, database } = openSync();
    const { wrapWithTransaction } = adapter().optionsFactory(database);
    const body = async (): Promise<void> => {
      await Promise.resolve();
      database.run(sql`update stock`);
    };
    await wrapWithTransaction(undefined, body, () => {});
    expect(statements).toEqual(['begin', 'commit', 'update stock']);
  });

  it('is refused at start, with the remedies [D92]', async () => {
    const starting = clsOrm('SQLite', () => ({
      adapter: lockAwareAdapter(adapter()),
      connection: openSync().database,
      isolated: () => ({}),
      runs: (tx: Runs) => tx,
      close: async () => {},
    })).open('');
    await expect(starting).rejects.toBeInstanceOf(LockConfigError);
    await expect(starting).rejects.toThrow(/synchronous.*libsql.*without lockAwareAdapter/);
  });

  it('is refused before the body if only the transaction can be inspected', async () => {
    const { statements, database } = openSync();
    const run = lockAwareTransactions();
    let ran = false;
    const sale = run(async (wrap) =>
      database.transaction((tx) => wrap(tx, async () => void (ran = true))),
    );
    await expect(sale).rejects.toBeInstanceOf(LockConfigError);
    expect([ran, ...statements]).toEqual([false, 'begin', 'rollback']);
  });
});

describe('Drizzle on postgres.js', () => {
  const redis = useRedis();
  const database = usePostgres();
  const stock = useStock(database);

  it('gets no time-outs that end a connection', async () => {
    const client = postgres(database.url, { onnotice: () => {} });
    afterTest(() => client.end());
    const orm = await clsOrm('postgres.js', () => ({
      adapter: lockAwareAdapter(
        new TransactionalAdapterDrizzleOrm({ drizzleInstanceToken: 'drizzle' }),
      ),
      connection: drizzlePostgresJs(client),
      isolated: (isolationLevel) => ({ isolationLevel }),
      runs: (tx: { execute(text: string): Promise<unknown> }) => ({
        query: (text) => tx.execute(text),
      }),
      close: async () => {},
    })).open(database.url);
    afterTest(() => orm.close());
    const { locks } = await startLocks(redis.url, { fence: {} });
    const [row] = await locks.withLock(stock.key, () =>
      orm.transaction(
        (tx) =>
          tx.query(
            `SELECT current_setting('statement_timeout') AS statement,
             current_setting('idle_in_transaction_session_timeout') AS idle,
             current_setting('transaction_timeout', true) AS total`,
            [],
          ) as Promise<unknown[]>,
        'read committed',
      ),
    );
    expect(row).toMatchObject({ statement: '10s', idle: '0', total: '0' });
  });
});
