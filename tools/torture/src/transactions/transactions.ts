import { type DynamicModule, type INestApplicationContext, Module } from '@nestjs/common';
import { ClsPluginTransactional, Propagation, TransactionHost } from '@nestjs-cls/transactional';
import { ClsModule } from 'nestjs-cls';
import { lockAwareAdapter } from 'nestjs-locked/nestjs-cls';
import { lockAwareDataSource } from 'nestjs-locked/typeorm';
import pg from 'pg';
import { DataSource } from 'typeorm';
import { AsyncLocalStorage } from 'node:async_hooks';
import type { ISOLATIONS } from './sale-plan.js';
import type { SalesTask } from './sales-task.js';

const POOL_SIZE = 5;

/** What the application does just before and just after the COMMIT of its transaction. */
export interface SaleHooks {
  readonly beforeCommit: () => Promise<void>;
  readonly afterCommit: () => Promise<void>;
}

/** The hooks of the transaction of this async context; undefined in one inside of another, which has none. */
const hooksHere = new AsyncLocalStorage<SaleHooks | undefined>();

/** Runs a statement. */
export interface Runs {
  query(sql: string, params: unknown[]): Promise<Record<string, unknown>[]>;
}

/**
 * What code in a transaction works with: the transaction that it is given, and the one that it finds in its context.
 */
export interface InTransaction {
  readonly given: Runs;
  /** Its connection, which accepts whatever is sent. */
  readonly bare: Runs;
  readonly found: () => Runs;
}

export interface Transactions {
  readonly modules: DynamicModule[];
  run(
    application: INestApplicationContext,
    isolation: (typeof ISOLATIONS)[number],
    body: (tx: InTransaction) => Promise<void>,
    hooks: SaleHooks,
  ): Promise<void>;
  /** A transaction of its own, on a connection of its own, wherever it is opened. */
  alone(application: INestApplicationContext, body: (tx: Runs) => Promise<void>): Promise<void>;
  close(): Promise<unknown>;
}

export function openTransactions(task: SalesTask): Promise<Transactions> {
  return task.opens === 'typeorm' ? throughTypeOrm(task) : throughCls(task);
}

async function throughTypeOrm({
  databaseUrl: url,
  driverLimitMs,
  broken,
}: SalesTask): Promise<Transactions> {
  const dataSource = await new DataSource({
    type: 'postgres',
    url,
    poolSize: POOL_SIZE,
    poolErrorHandler: () => {},
    ...(driverLimitMs !== undefined && { extra: { query_timeout: driverLimitMs } }),
  }).initialize();
  if (!broken.includes('unknown')) lockAwareDataSource(dataSource);
  dataSource.subscribers.push({
    beforeTransactionCommit: () => hooksHere.getStore()?.beforeCommit(),
    afterTransactionCommit: () => hooksHere.getStore()?.afterCommit(),
  });
  return {
    modules: [],
    run: (_, isolation, body, hooks) =>
      hooksHere.run(hooks, () =>
        dataSource.transaction(isolation, (manager) =>
          body({
            given: manager,
            bare: runs(
              (manager.queryRunner as { databaseConnection?: unknown }).databaseConnection,
            ),
            found: () => manager,
          }),
        ),
      ),
    alone: (_, body) => hooksHere.run(undefined, () => dataSource.transaction(body)),
    close: () => dataSource.destroy(),
  };
}

/** Transactions as an application opens them that uses plain pg. */
async function throughCls({
  databaseUrl,
  driverLimitMs,
  broken,
}: SalesTask): Promise<Transactions> {
  const pool = new pg.Pool({
    connectionString: databaseUrl,
    max: POOL_SIZE,
    ...(driverLimitMs !== undefined && { query_timeout: driverLimitMs }),
  });
  pool.on('error', () => {});
  pool.on('connect', (client) => client.on('error', () => {}));
  const bare = new AsyncLocalStorage<pg.PoolClient>();
  const optionsFactory = (connection: pg.Pool) => ({
    wrapWithTransaction: async (
      { isolationLevel }: { isolationLevel?: string },
      body: () => Promise<unknown>,
      setTx: (tx: pg.PoolClient) => void,
    ) => {
      const client = await connection.connect();
      let broken: Error | undefined;
      try {
        await client.query(`BEGIN ISOLATION LEVEL ${isolationLevel}`);
        setTx(client);
        const result = await bare.run(client, body);
        await hooksHere.getStore()?.beforeCommit();
        await client.query('COMMIT');
        await hooksHere.getStore()?.afterCommit();
        return result;
      } catch (error) {
        await client.query('ROLLBACK').catch((failure: Error) => (broken = failure));
        throw error;
      } finally {
        client.release(broken);
      }
    },
    getFallbackInstance: () => connection,
  });
  const adapter = { connection: pool, optionsFactory };
  const plugin = new ClsPluginTransactional({
    adapter: (broken.includes('unknown')
      ? adapter
      : lockAwareAdapter(adapter, { dialect: 'postgres' })) as never,
  });

  @Module({})
  class Transactional {}

  const modules = [{ module: Transactional, imports: [ClsModule.forRoot({ plugins: [plugin] })] }];
  const hostIn = (application: INestApplicationContext): TransactionHost =>
    application.get<TransactionHost>(TransactionHost, { strict: false });
  return {
    modules,
    run: (application, isolationLevel, body, hooks) => {
      const host = hostIn(application);
      const options = { isolationLevel } as never;
      return hooksHere.run(hooks, () =>
        host.withTransaction(options, () =>
          body({
            given: runs(host.tx),
            bare: runs(bare.getStore()),
            found: () => runs(host.tx),
          }),
        ),
      );
    },
    alone: (application, body) => {
      const host = hostIn(application);
      const options = { isolationLevel: 'READ COMMITTED' } as never;
      return hooksHere.run(undefined, () =>
        host.withTransaction(Propagation.RequiresNew, options, () => body(runs(host.tx))),
      );
    },
    close: () => pool.end(),
  };
}

function runs(tx: unknown): Runs {
  return {
    query: async (sql, params) =>
      (await (tx as pg.PoolClient).query<Record<string, unknown>>(sql, params)).rows,
  };
}
