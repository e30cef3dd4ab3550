import { describe, expect, it } from '@jest/globals';
import knexOf, { type Knex } from 'knex';
import { CamelCasePlugin, CompiledQuery, Kysely, PostgresDialect, type Transaction } from 'kysely';
import { createPool } from 'mysql2/promise';
import { LockConfigError, LockFencedError, type RedisLockModuleOptions } from 'nestjs-locked';
import { pruneFenceTable } from 'nestjs-locked/transactions';
import { lockAwareTransactions } from 'nestjs-locked/transactions';
import pg from 'pg';
import pgPromise from 'pg-promise';
import postgres, { type TransactionSql } from 'postgres';
import { afterTest } from '../support/after-test.js';
import { useMariaDb, usePostgres } from '../support/databases.js';
import { describeWithMariaDb } from '../support/describe-if.js';
import { useRedis } from '../support/shared-redis.js';
import { giveAway, startLocks } from './locks.js';
import { mysql2Transactions } from './mysql2-transactions.js';
import { useStock } from './stock.js';

type Send = (sql: string) => Promise<unknown>;
type Sell = (body: (send: Send) => Promise<unknown>) => Promise<unknown>;
type Row = Record<string, unknown>;
type MapRow = (row: Row) => unknown;

const camel = (name: string): string =>
  name.replace(/_(\w)/g, (_, letter: string) => letter.toUpperCase());
const named =
  (rename: (name: string) => string): MapRow =>
  (row) =>
    Object.fromEntries(Object.entries(row).map(([name, value]) => [rename(name), value]));

/** Sends, through the recipe for node-postgres, what `map` makes of each row. */
function nodePostgres(url: string, answer: (result: pg.QueryResult) => unknown): Sell {
  const pool = new pg.Pool({ connectionString: url });
  afterTest(() => pool.end());
  const run = lockAwareTransactions<pg.PoolClient>({
    dialect: 'postgres',
    query: async (tx, sql, params) => answer(await tx.query(sql, params)),
    pool,
  });
  return (body) =>
    run(async (wrap) => {
      const client = await pool.connect();
      try {
        await client.query('BEGIN');
        const result = await wrap(client, (tx) => body((sql) => tx.query(sql)));
        await client.query('COMMIT');
        return result;
      } catch (error) {
        await client.query('ROLLBACK');
        throw error;
      } finally {
        client.release();
      }
    });
}

const rows =
  (map: MapRow) =>
  (url: string): Sell =>
    nodePostgres(url, (result) => (result.rows as Row[]).map(map));

const ON_POSTGRES: Record<string, (url: string) => Sell> = {
  'CamelCasePlugin of Kysely': (url) => {
    const pool = new pg.Pool({ connectionString: url });
    const kysely = new Kysely<unknown>({
      dialect: new PostgresDialect({ pool }),
      plugins: [new CamelCasePlugin()],
    });
    afterTest(() => kysely.destroy());
    const run = lockAwareTransactions<Transaction<unknown>>({ pool });
    return (body) =>
      run((wrap) =>
        kysely
          .transaction()
          .execute((tx) =>
            wrap(tx, (own) => body((sql) => own.executeQuery(CompiledQuery.raw(sql)))),
          ),
      );
  },
  'transform of postgres.js': (url) => {
    const sql = postgres(url, { transform: postgres.camel, onnotice: () => {} });
    afterTest(() => sql.end());
    const run = lockAwareTransactions<TransactionSql>({
      dialect: 'postgres',
      query: (tx, text, params) => tx.unsafe(text, params as string[]),
      survivesDisconnect: false,
    });
    return (body) =>
      run<unknown>((wrap) =>
        sql.begin((tx) => wrap(tx, (own) => body((text) => own.unsafe(text)))),
      );
  },
  'postProcessResponse of Knex': (url) => {
    const mapped = (result: { rows?: Row[] }): unknown =>
      result?.rows === undefined ? result : { ...result, rows: result.rows.map(named(camel)) };
    const knex = knexOf({ client: 'pg', connection: url, postProcessResponse: mapped });
    afterTest(() => knex.destroy());
    const run = lockAwareTransactions<Knex.Transaction>();
    return (body) =>
      run<unknown>((wrap) =>
        knex.transaction((tx) => wrap(tx, (own) => body(async (sql) => own.raw(sql)))),
      );
  },
  'receive of pg-promise': (url) => {
    const receive = ({ data }: { data: Row[] }): void => {
      for (const row of data) {
        for (const name of Object.keys(row).filter((one) => camel(one) !== one)) {
          row[camel(name)] = row[name];
          delete row[name];
        }
      }
    };
    const database = pgPromise({ noWarnings: true, receive })(url);
    afterTest(() => database.$pool.end());
    const run = lockAwareTransactions<pgPromise.ITask<object>>({ pool: database.$pool });
    return (body) =>
      run<unknown>((wrap) => database.tx((tx) => wrap(tx, (own) => body((sql) => own.query(sql)))));
  },
  'names in upper case': rows(named((name) => name.toUpperCase())),
  'names with a prefix': rows(named((name) => `db.${name}`)),
  'old and new names': rows((row) => ({
    ...row,
    ...(named(camel)(row) as Row),
    X: Object.values(row)[0],
  })),
  'rows as lists': rows((row) => Object.values(row)),
  'values alone': rows((row) => Object.values(row)[0]),
  'no columns that are null': rows((row) =>
    Object.fromEntries(Object.entries(row).filter(([, value]) => value !== null)),
  ),
  'lists in rows': (url) =>
    nodePostgres(url, ({ rows: all }) => ({
      rows: (all as Row[]).map((row) => Object.values(row)),
    })),
};

const UNREADABLE: Record<string, (url: string) => Sell> = {
  nothing: (url) => nodePostgres(url, () => undefined),
  'a number of rows': (url) => nodePostgres(url, ({ rowCount }) => ({ rowCount })),
  'rows without columns': rows(() => ({})),
  'values that are hidden': rows((row) =>
    Object.fromEntries(Object.keys(row).map((name) => [name, '***'])),
  ),
};

const OPTIONS: Record<string, Partial<RedisLockModuleOptions>> = {
  'with time-outs': {},
  'without time-outs': { transactionTimeouts: false },
};

describe('The answers of PostgreSQL, mapped by the application', () => {
  const redis = useRedis();
  const database = usePostgres();
  const stock = useStock(database);
  const raise = (token: number): Promise<unknown> =>
    database.query('UPDATE lock_fence SET token = $1 WHERE lock_key = $2', [token, stock.key]);
  const update = (): string =>
    `UPDATE stock SET quantity = quantity - 1 WHERE id = '${stock.product}'`;

  describe.each(Object.entries(OPTIONS))('%s', (_, options) => {
    it.each(Object.entries(ON_POSTGRES))('are understood: %s', async (_name, open) => {
      const sell = open(database.url);
      const { locks } = await startLocks(redis.url, { fence: true, ...options });
      for (let i = 0; i < 3; i++) {
        await locks.withLock([stock.key, `${stock.key}:2`], async (lock) => {
          await sell((send) => send(update()));
          expect(await stock.fence()).toBe(lock.fencingTokenOf(stock.key));
        });
      }
      // The numbers of Redis are behind: the newest one is requested, and they continue from there.
      const ahead = Date.now() * 1_000 + 3_600_000_000;
      await raise(ahead);
      await locks.withLock(stock.key, async (lock) => {
        await sell((send) => send(update()));
        expect(lock.fencingToken).toBeGreaterThan(ahead);
      });
      const late = locks.withLock(stock.key, async ({ fencingToken }) => {
        await giveAway(redis.url, stock.key);
        await raise(fencingToken + 10_000_000);
        await sell((send) => send(update()));
      });
      await expect(late).rejects.toBeInstanceOf(LockFencedError);
      expect(await stock.quantity()).toBe(96);
    });

    it.each(Object.entries(UNREADABLE))('are no verdict if they are %s', async (_name, open) => {
      const sell = open(database.url);
      const { locks } = await startLocks(redis.url, { fence: true, ...options });
      const sale = locks.withLock(stock.key, () => sell((send) => send(update())));
      await expect(sale).rejects.toBeInstanceOf(LockConfigError);
      await expect(sale).rejects.toThrow(
        /^Cannot read what the database has answered to the claim/,
      );
      expect(await stock.quantity()).toBe(100);
    });
  });

  it.each(Object.entries(ON_POSTGRES))(
    'are understood without the fence, where the level is requested: %s',
    async (_name, open) => {
      const sell = open(database.url);
      const { locks } = await startLocks(redis.url, { insideTransaction: 'join' });
      await sell((send) => locks.withLock(stock.key, () => send(update())));
      await locks.withLock(stock.key, () => sell((send) => send(update())));
      expect(await stock.quantity()).toBe(98);
    },
  );

  it('are understood where old rows of the fence table are deleted', async () => {
    const old = `old-${stock.product}`;
    await database.query(`INSERT INTO lock_fence VALUES ($1, 5)`, [old]);
    await stock.raiseFence(Date.now() * 1_000);
    const pruned = (map: MapRow): Promise<number> =>
      pruneFenceTable(async (sql, params) => (await database.query<Row>(sql, params)).map(map), {
        dialect: 'postgres',
      });
    await expect(pruned(() => ({}))).rejects.toThrow(/^Cannot read .* the newest token/);
    expect(await pruned(named((name) => name.toUpperCase()))).toBe(1);
    await database.query(`INSERT INTO lock_fence VALUES ($1, 5)`, [old]);
    expect(await pruned(named(camel))).toBe(1);
    const left = await database.query('SELECT 1 FROM lock_fence WHERE lock_key = $1', [old]);
    expect(left).toHaveLength(0);
  });
});

const ON_MYSQL = [
  { rowsAsArray: true },
  { nestTables: true as unknown as string },
  { nestTables: '_' },
  { supportBigNumbers: true, bigNumberStrings: true },
];

describeWithMariaDb('The answers of MariaDB, in the forms of mysql2', () => {
  const redis = useRedis();
  const database = useMariaDb();
  const stock = useStock(database, 'mysql');
  const raise = (token: number): Promise<unknown> =>
    database.query('UPDATE lock_fence SET token = ? WHERE lock_key = ?', [token, stock.key]);

  it.each(ON_MYSQL)('are understood: %j', async (form) => {
    const pool = createPool({ ...database.settings, ...form });
    afterTest(() => pool.end());
    const run = mysql2Transactions(pool);
    const { locks } = await startLocks(redis.url, { fence: true });
    const sell = (): Promise<unknown> =>
      run((tx) =>
        tx.query('UPDATE stock SET quantity = quantity - 1 WHERE id = ?', [stock.product]),
      );
    await locks.withLock([stock.key, `${stock.key}:2`], sell);
    const ahead = Date.now() * 1_000 + 3_600_000_000;
    await raise(ahead);
    await locks.withLock(stock.key, async (lock) => {
      await sell();
      expect([await stock.fence(), lock.fencingToken > ahead]).toEqual([lock.fencingToken, true]);
    });
    const late = locks.withLock(stock.key, async ({ fencingToken }) => {
      await giveAway(redis.url, stock.key);
      await raise(fencingToken + 10_000_000);
      await sell();
    });
    await expect(late).rejects.toBeInstanceOf(LockFencedError);
    expect(await stock.quantity()).toBe(98);
    await database.query(`INSERT INTO lock_fence VALUES ('old', 5)`);
    const options = { dialect: 'mysql' } as const;
    expect(await pruneFenceTable((sql, params) => pool.query(sql, params), options)).toBe(1);
    expect(await database.query(`SELECT 1 FROM lock_fence WHERE lock_key = 'old'`)).toEqual([]);
  });
});
