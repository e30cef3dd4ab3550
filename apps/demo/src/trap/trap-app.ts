import { Module } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { ClsPluginTransactional } from '@nestjs-cls/transactional';
import { TransactionalAdapterTypeOrm } from '@nestjs-cls/transactional-adapter-typeorm';
import { ClsModule } from 'nestjs-cls';
import { RedisLockModule } from 'nestjs-locked';
import { lockAwareAdapter } from 'nestjs-locked/nestjs-cls';
import { createFenceTable } from 'nestjs-locked/transactions';
import { DataSource } from 'typeorm';
import { type TrapOrder, TrapOrdersService, TrapStockService } from './trap-services.js';
import type { Variant } from './variant.js';

export const POOL_SIZE = 5;
/** How long a caller waits for a connection. Each time the trap snaps, it costs this long. */
const POOL_PATIENCE_MS = 1_500;
/** Longer than the last caller in the queue waits. */
const LOCK_PATIENCE_MS = 10_000;
const SHUTDOWN_MS = 2_000;

/** A small application in this process, wired in the way of the variant. */
export interface TrapApp {
  place(order: TrapOrder): Promise<void>;
  /** A query that has nothing to do with the orders, but needs a connection from the same pool. */
  unrelatedQuery(): Promise<unknown>;
  /** A second call does nothing. */
  close(): Promise<void>;
}

export async function startTrapApp(
  variant: Variant,
  databaseUrl: string,
  redisUrl: string,
): Promise<TrapApp> {
  const dataSource = new DataSource({
    type: 'postgres',
    url: databaseUrl,
    poolSize: POOL_SIZE,
    connectTimeoutMS: POOL_PATIENCE_MS,
  });
  await dataSource.initialize();
  try {
    await createFenceTable((sql) => dataSource.query(sql), { dialect: 'postgres' });
    // All connections are opened first: the wait for one is measured, not the time that it takes to open one.
    const queries = Array.from({ length: POOL_SIZE }, () =>
      dataSource.query('SELECT pg_sleep(0.05)'),
    );
    await Promise.all(queries);
    const app = await NestFactory.createApplicationContext(
      moduleOf(variant, dataSource, redisUrl),
      { logger: false, abortOnError: false },
    );
    const orders = app.get(TrapOrdersService);
    let closing: Promise<void> | undefined;
    return {
      place: (order) =>
        variant.nesting === 'right'
          ? orders.placeInRightNesting(order)
          : orders.placeInWrongNesting(order),
      unrelatedQuery: () => dataSource.query('SELECT 1'),
      close: () => (closing ??= app.close().finally(() => dataSource.destroy())),
    };
  } catch (error) {
    await dataSource.destroy();
    throw error;
  }
}

function moduleOf(
  { insideTransaction }: Variant,
  dataSource: DataSource,
  redisUrl: string,
): new () => unknown {
  const database = { provide: DataSource, useValue: dataSource };
  @Module({ providers: [database], exports: [database] })
  class TrapDatabaseModule {}

  const plain = new TransactionalAdapterTypeOrm({ dataSourceToken: DataSource });
  const adapter = insideTransaction === undefined ? plain : lockAwareAdapter(plain);
  const imports = [TrapDatabaseModule];
  @Module({
    imports: [
      TrapDatabaseModule,
      ClsModule.forRoot({ plugins: [new ClsPluginTransactional({ imports, adapter })] }),
      RedisLockModule.forRoot({
        connection: redisUrl,
        waitMs: LOCK_PATIENCE_MS,
        shutdownMs: SHUTDOWN_MS,
        ...(insideTransaction === undefined ? {} : { insideTransaction, fence: {} }),
      }),
    ],
    providers: [TrapStockService, TrapOrdersService],
  })
  class TrapModule {}
  return TrapModule;
}
