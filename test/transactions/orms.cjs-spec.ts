import { describe, expect, it } from '@jest/globals';
import { ClsPluginTransactional, TransactionHost } from '@nestjs-cls/transactional';
import { TransactionalAdapterDrizzleOrm } from '@nestjs-cls/transactional-adapter-drizzle-orm';
import { Module } from '@nestjs/common';
import { sql } from 'drizzle-orm';
import { drizzle, type NodePgDatabase } from 'drizzle-orm/node-postgres';
import knexOf, { type Knex } from 'knex';
import { CompiledQuery, Kysely, PostgresDialect, type IsolationLevel } from 'kysely';
import { ClsModule } from 'nestjs-cls';
import {
  LockFencedError,
  LockInTransactionError,
  LockLostError,
  LockService,
  RedisLockModule,
  type RedisLockModuleOptions,
} from 'nestjs-locked';
import { lockAware } from 'nestjs-locked/nestjs-cls';
import { setTimeout as sleep } from 'node:timers/promises';
import pg from 'pg';
import { afterTest } from '../support/after-test.js';
import { usePostgres } from '../support/databases.js';
import { startNest } from '../support/nest-app.js';
import { useRedis } from '../support/shared-redis.js';
import { giveAway, isHeld } from './locks.js';
import { type Runs, useStock } from './stock.js';

const redis = useRedis();
const postgres = usePostgres();
const stock = useStock(postgres);

const held = (): Promise<boolean> => isHeld(redis.url, stock.key);

/* eslint-disable @typescript-eslint/no-explicit-any -- transactions of different ORMs */
type Body = () => Promise<any>;

interface Orm {
  readonly name: string;
  /** For `@nestjs-cls/transactional`, on a pool of its own that is closed after the test. */
  readonly adapter: () => any;
  /** Runs a statement in a transaction, its rows are the answer. */
  readonly runs: (tx: any) => Runs;
}
/* eslint-enable @typescript-eslint/no-explicit-any */

function openPool(): pg.Pool {
  const pool = new pg.Pool({ connectionString: postgres.url, max: 5 });
  pool.on('error', () => {});
  afterTest(() => pool.end());
  return pool;
}

const DRIZZLE: Orm = {
  name: 'Drizzle',
  adapter: () => {
    const token = 'drizzle';
    const provider = { provide: token, useValue: drizzle(openPool()) };

    @Module({ providers: [provider], exports: [provider] })
    class DatabaseModule {}

    const adapter = new TransactionalAdapterDrizzleOrm<NodePgDatabase>({
      drizzleInstanceToken: token,
    });
    return { imports: [DatabaseModule], adapter: lockAware(adapter) };
  },
  runs: (tx: NodePgDatabase) => ({
    query: async (text, params: (string | number)[]) => {
      const parts = text.split(/\$\d/);
      const values = params.map((param) => sql`${param}`);
      const chunks = parts.flatMap((part, at) => [sql.raw(part), ...values.slice(at, at + 1)]);
      return (await tx.execute(sql.join(chunks))).rows;
    },
  }),
};

const KNEX: Orm = {
  name: 'Knex',
  adapter: () => {
    const connection = knexOf({ client: 'pg', connection: postgres.url, pool: { max: 5 } });
    afterTest(() => connection.destroy());
    const optionsFactory = (knex: Knex) => ({
      wrapWithTransaction: (
        options: Knex.TransactionConfig,
        body: Body,
        setTx: (tx: Knex) => void,
      ) =>
        knex.transaction((tx) => {
          setTx(tx);
          return body();
        }, options),
      getFallbackInstance: () => knex,
    });
    return { adapter: lockAware({ connection, optionsFactory }) };
  },
  runs: (tx: Knex) => ({
    query: async (text, params: (string | number)[]) =>
      (await tx.raw<{ rows: unknown[] }>(text.replace(/\$\d/g, '?'), params)).rows,
  }),
};

const KYSELY: Orm = {
  name: 'Kysely',
  adapter: () => {
    const connection = new Kysely<unknown>({ dialect: new PostgresDialect({ pool: openPool() }) });
    const optionsFactory = (kysely: Kysely<unknown>) => ({
      wrapWithTransaction: (
        { isolationLevel = 'read committed' }: { isolationLevel?: IsolationLevel },
        body: Body,
        setTx: (tx: Kysely<unknown>) => void,
      ) =>
        kysely
          .transaction()
          .setIsolationLevel(isolationLevel)
          .execute((tx) => {
            setTx(tx);
            return body();
          }),
      getFallbackInstance: () => kysely,
    });
    return { adapter: lockAware({ connection, optionsFactory }) };
  },
  runs: (tx: Kysely<unknown>) => ({
    query: async (text, params) => (await tx.executeQuery(CompiledQuery.raw(text, params))).rows,
  }),
};

const ORMS = [DRIZZLE, KNEX, KYSELY].map((orm) => [orm.name, orm] as const);

describe.each(ORMS)('%s', (_, { adapter, runs }) => {
  const start = async (
    options: Omit<RedisLockModuleOptions, 'connection'> = {},
  ): Promise<{ locks: LockService; host: TransactionHost; tx: () => Runs }> => {
    const plugin = new ClsPluginTransactional(adapter() as { adapter: never });
    const app = await startNest({
      imports: [
        ClsModule.forRoot({ plugins: [plugin] }),
        RedisLockModule.forRoot({ connection: redis.url, ...options }),
      ],
    });
    const host = app.get(TransactionHost);
    return { host, locks: app.get(LockService), tx: () => runs(host.tx) };
  };

  it.each(['read committed', 'repeatable read'])(
    'loses no update in the right order at %s',
    async (isolationLevel) => {
      const { locks, host, tx } = await start({ fence: {} });
      await Promise.all(
        Array.from({ length: 10 }, () =>
          locks.withLock(stock.key, () =>
            host.withTransaction({ isolationLevel } as never, () => stock.takeOne(tx())),
          ),
        ),
      );
      expect([await held(), await stock.quantity()]).toEqual([false, 90]);
    },
  );

  it('claims with the time-outs, before the body runs', async () => {
    const { locks, host, tx } = await start({ fence: {} });
    await locks.withLock(stock.key, async ({ fencingToken }) => {
      await host.withTransaction(async () => {
        const [row] = (await tx().query(
          `SELECT token, current_setting('statement_timeout') AS statement,
           current_setting('idle_in_transaction_session_timeout') AS idle
           FROM lock_fence WHERE lock_key = $1`,
          [stock.key],
        )) as { token: string; statement: string; idle: string }[];
        expect(Number(row?.token)).toBe(fencingToken);
        expect([row?.statement, row?.idle]).toEqual(['10s', '8s']);
      });
      expect(await stock.fence()).toBe(fencingToken);
    });
  });

  it('lets no body run after a newer holder', async () => {
    const { locks, host } = await start({ fence: {} });
    let ran = false;
    const sale = locks.withLock(stock.key, async ({ fencingToken }) => {
      await giveAway(redis.url, stock.key);
      await stock.raiseFence(fencingToken + 10_000_000);
      await host.withTransaction(async () => void (ran = true));
    });
    await expect(sale).rejects.toBeInstanceOf(LockFencedError);
    expect(ran).toBe(false);
  });

  it('refuses a lock asked for inside, or restarts for it', async () => {
    const rejecting = await start();
    await expect(
      rejecting.host.withTransaction(() => rejecting.locks.withLock(stock.key, async () => {})),
    ).rejects.toBeInstanceOf(LockInTransactionError);
    const { locks, host, tx } = await start({ fence: {}, insideTransaction: 'restart' });
    let runs = 0;
    await Promise.all(
      Array.from({ length: 10 }, () =>
        host.withTransaction({ isolationLevel: 'repeatable read' } as never, async () => {
          runs++;
          await tx().query('SELECT count(*) FROM stock', []);
          await locks.withLock(stock.key, () => stock.takeOne(tx()));
        }),
      ),
    );
    expect([runs, await held(), await stock.quantity()]).toEqual([20, false, 90]);
  });

  it('asks the database for the isolation of a transaction that was opened without one', async () => {
    const { locks, host, tx } = await start({ insideTransaction: 'join' });
    await host.withTransaction(() => locks.withLock(stock.key, () => stock.takeOne(tx())));
    expect(await stock.quantity()).toBe(99);
  });

  it('commits nothing after the lease was lost', async () => {
    const { locks, host, tx } = await start();
    const sale = locks.withLock(stock.key, () =>
      host.withTransaction(async () => {
        await stock.takeOne(tx());
        await locks.forceRelease(stock.key);
        await sleep(50);
      }),
    );
    await expect(sale).rejects.toBeInstanceOf(LockLostError);
    expect(await stock.quantity()).toBe(100);
  });

  it('turns a swallowed SQL error into an error', async () => {
    const { locks, host, tx } = await start();
    const sale = locks.withLock(stock.key, () =>
      host.withTransaction(async () => {
        await stock.takeOne(tx());
        await tx()
          .query('SELECT * FROM nowhere', [])
          .catch(() => {});
      }),
    );
    const failure: unknown = await sale.catch((error: unknown) => error);
    const { cause, code } = failure as { cause?: { code: string }; code?: string };
    expect(code ?? cause?.code).toBe('25P02');
    expect([await held(), await stock.quantity()]).toEqual([false, 100]);
  });
});
