import { Module } from '@nestjs/common';
import { ClsPluginTransactional, TransactionHost } from '@nestjs-cls/transactional';
import { TransactionalAdapterDrizzleOrm } from '@nestjs-cls/transactional-adapter-drizzle-orm';
import { TransactionalAdapterTypeOrm } from '@nestjs-cls/transactional-adapter-typeorm';
import { drizzle, type NodePgDatabase } from 'drizzle-orm/node-postgres';
import knexOf, { type Knex } from 'knex';
import { CompiledQuery, Kysely, PostgresDialect } from 'kysely';
import { ClsModule } from 'nestjs-cls';
import { LockService, RedisLockModule, type RedisLockModuleOptions } from 'nestjs-locked';
import { lockAwareAdapter } from 'nestjs-locked/nestjs-cls';
import { lockAwareDataSource } from 'nestjs-locked/typeorm';
import pg from 'pg';
import type { DataSource, EntityManager } from 'typeorm';
import { afterTest } from '../support/after-test.js';
import type { TestDatabase } from '../support/databases.js';
import { startNest } from '../support/nest-app.js';
import { openDataSource } from '../transactions/data-source.js';
import { drizzleRuns } from '../transactions/drizzle-runs.js';
import { startLocks } from '../transactions/locks.js';
import type { Runs } from '../transactions/stock.js';

export type LockModuleOptions = Omit<RedisLockModuleOptions, 'connection'>;

/** The body of a transaction. Its code gets the current transaction from `tx` at any time. */
export type Body<R> = (tx: () => Runs) => Promise<R>;

export interface StartedOrm {
  readonly locks: LockService;
  readonly transaction: <R>(body: Body<R>) => Promise<R>;
}

export interface RestartingOrm {
  readonly name: string;
  start(redisUrl: string, postgres: TestDatabase, options: LockModuleOptions): Promise<StartedOrm>;
}

const POOL_SIZE = 5;

const TYPEORM: RestartingOrm = {
  name: 'TypeORM',
  async start(redisUrl, postgres, options) {
    const dataSource = lockAwareDataSource(
      await openDataSource('postgres', postgres.settings, POOL_SIZE),
    );
    const { locks } = await startLocks(redisUrl, options);
    return {
      locks,
      transaction: (body) => dataSource.transaction((manager) => body(() => manager)),
    };
  },
};

/* eslint-disable @typescript-eslint/no-explicit-any -- adapters and transactions of different ORMs */
interface ClsParts {
  readonly adapter: object;
  readonly connection?: object;
  readonly runs: (tx: any) => Runs;
}
/* eslint-enable @typescript-eslint/no-explicit-any */

function throughCls(
  name: string,
  parts: (postgres: TestDatabase) => ClsParts | Promise<ClsParts>,
): RestartingOrm {
  return {
    name: `${name} through nestjs-cls`,
    async start(redisUrl, postgres, options) {
      const { adapter, connection, runs } = await parts(postgres);
      const provided = connection === undefined ? [] : [{ provide: 'db', useValue: connection }];

      @Module({ providers: provided, exports: provided })
      class DatabaseModule {}

      const plugin = new ClsPluginTransactional({
        imports: [DatabaseModule],
        adapter: adapter as never,
      });
      const app = await startNest({
        imports: [
          ClsModule.forRoot({ plugins: [plugin] }),
          RedisLockModule.forRoot({ connection: redisUrl, ...options }),
        ],
      });
      const host = app.get<TransactionHost>(TransactionHost);
      return {
        locks: app.get(LockService),
        transaction: (body) => host.withTransaction(() => body(() => runs(host.tx))),
      };
    },
  };
}

function openPool({ url }: TestDatabase): pg.Pool {
  const pool = new pg.Pool({ connectionString: url, max: POOL_SIZE });
  pool.on('error', () => {});
  afterTest(() => pool.end());
  return pool;
}

const TYPEORM_CLS = throughCls('TypeORM', async (postgres) => {
  const connection: DataSource = await openDataSource('postgres', postgres.settings, POOL_SIZE);
  return {
    connection,
    adapter: lockAwareAdapter(new TransactionalAdapterTypeOrm({ dataSourceToken: 'db' })),
    runs: (tx: EntityManager) => tx,
  };
});

const DRIZZLE = throughCls('Drizzle', (postgres) => ({
  connection: drizzle(openPool(postgres)),
  adapter: lockAwareAdapter(
    new TransactionalAdapterDrizzleOrm<NodePgDatabase>({ drizzleInstanceToken: 'db' }),
  ),
  runs: drizzleRuns,
}));

const KNEX = throughCls('Knex', (postgres) => {
  const connection = knexOf({ client: 'pg', connection: postgres.url, pool: { max: POOL_SIZE } });
  afterTest(() => connection.destroy());
  const optionsFactory = (knex: Knex) => ({
    wrapWithTransaction: (_: object, body: () => Promise<unknown>, setTx: (tx: Knex) => void) =>
      knex.transaction((tx) => {
        setTx(tx);
        return body();
      }),
    getFallbackInstance: () => knex,
  });
  return {
    adapter: lockAwareAdapter({ connection, optionsFactory }),
    runs: (tx: Knex) => ({
      query: async (text, params: (string | number)[]) =>
        (await tx.raw<{ rows: unknown[] }>(text.replace(/\$\d/g, '?'), params)).rows,
    }),
  };
});

const KYSELY = throughCls('Kysely', (postgres) => {
  const pool = openPool(postgres);
  const connection = new Kysely<unknown>({ dialect: new PostgresDialect({ pool }) });
  const optionsFactory = (kysely: Kysely<unknown>) => ({
    wrapWithTransaction: (
      _: object,
      body: () => Promise<unknown>,
      setTx: (tx: Kysely<unknown>) => void,
    ) =>
      kysely.transaction().execute((tx) => {
        setTx(tx);
        return body();
      }),
    getFallbackInstance: () => kysely,
  });
  return {
    adapter: lockAwareAdapter({ connection, optionsFactory }),
    runs: (tx: Kysely<unknown>) => ({
      query: async (text, params) => (await tx.executeQuery(CompiledQuery.raw(text, params))).rows,
    }),
  };
});

const PG = throughCls('pg', (postgres) => {
  const connection = openPool(postgres);
  const optionsFactory = (pool: pg.Pool) => ({
    wrapWithTransaction: async (
      _: object,
      body: () => Promise<unknown>,
      setTx: (tx: pg.PoolClient) => void,
    ) => {
      const client = await pool.connect();
      try {
        await client.query('BEGIN');
        setTx(client);
        const result = await body();
        await client.query('COMMIT');
        return result;
      } catch (error) {
        await client.query('ROLLBACK');
        throw error;
      } finally {
        client.release();
      }
    },
    getFallbackInstance: () => pool,
  });
  return {
    adapter: lockAwareAdapter({ connection, optionsFactory }, { dialect: 'postgres' }),
    runs: (tx: pg.PoolClient) => ({
      query: async (text, params) => (await tx.query<pg.QueryResultRow>(text, params)).rows,
    }),
  };
});

export const RESTARTING_ORMS = [TYPEORM, TYPEORM_CLS, DRIZZLE, KNEX, KYSELY, PG];
