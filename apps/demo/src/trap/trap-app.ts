import { type INestApplicationContext, Module } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { ClsPluginTransactional } from '@nestjs-cls/transactional';
import { TransactionalAdapterTypeOrm } from '@nestjs-cls/transactional-adapter-typeorm';
import { ClsModule } from 'nestjs-cls';
import { RedisLockModule } from 'nestjs-locked';
import { lockAwareAdapter } from 'nestjs-locked/nestjs-cls';
import { createFenceTable } from 'nestjs-locked/transactions';
import { DataSource } from 'typeorm';
import type { TrapOrder } from './trap-order.js';
import { TrapOrdersService } from './trap-orders.service.js';
import { TrapStockService } from './trap-stock.service.js';
import type { Variant } from './variant.js';

export const POOL_SIZE = 5;
/** How long a caller waits for a connection. Each time the trap snaps, it costs this long. */
const POOL_PATIENCE_MS = 1_500;
/** Longer than the last caller in the queue waits. */
const LOCK_PATIENCE_MS = 10_000;
const SHUTDOWN_MS = 2_000;

export interface TrapServers {
  readonly databaseUrl: string;
  readonly redisUrl: string;
}

/** A small application in this process, wired in the way of the variant. */
export class TrapApp {
  #closing: Promise<void> | undefined;

  private constructor(
    private readonly app: INestApplicationContext,
    private readonly dataSource: DataSource,
    private readonly variant: Variant,
  ) {}

  static async start(variant: Variant, { databaseUrl, redisUrl }: TrapServers): Promise<TrapApp> {
    const dataSource = new DataSource({
      type: 'postgres',
      url: databaseUrl,
      poolSize: POOL_SIZE,
      connectTimeoutMS: POOL_PATIENCE_MS,
    });
    await dataSource.initialize();
    try {
      await createFenceTable((sql) => dataSource.query(sql), { dialect: 'postgres' });
      await openAllConnections(dataSource);
      const app = await NestFactory.createApplicationContext(
        moduleOf(variant, dataSource, redisUrl),
        { logger: false, abortOnError: false },
      );
      return new TrapApp(app, dataSource, variant);
    } catch (error) {
      await dataSource.destroy();
      throw error;
    }
  }

  place(order: TrapOrder): Promise<void> {
    const orders = this.app.get(TrapOrdersService);
    return this.variant.nesting === 'right'
      ? orders.placeInRightNesting(order)
      : orders.placeInWrongNesting(order);
  }

  /** A query that has nothing to do with the orders, but needs a connection from the same pool. */
  async unrelatedQuery(): Promise<void> {
    await this.dataSource.query('SELECT 1');
  }

  close(): Promise<void> {
    return (this.#closing ??= this.app.close().finally(() => this.dataSource.destroy()));
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

  const adapter = new TransactionalAdapterTypeOrm({ dataSourceToken: DataSource });
  @Module({
    imports: [
      TrapDatabaseModule,
      ClsModule.forRoot({
        plugins: [
          new ClsPluginTransactional({
            imports: [TrapDatabaseModule],
            adapter: insideTransaction === undefined ? adapter : lockAwareAdapter(adapter),
          }),
        ],
      }),
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

/**
 * Opens all connections first, because the wait for a connection is measured, and not the time that it takes to open
 * one.
 */
async function openAllConnections(dataSource: DataSource): Promise<void> {
  await Promise.all(
    Array.from({ length: POOL_SIZE }, () => dataSource.query('SELECT pg_sleep(0.05)')),
  );
}
