import { Module, type Provider } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { ClsPluginTransactional, TransactionHost } from '@nestjs-cls/transactional';
import { TransactionalAdapterTypeOrm } from '@nestjs-cls/transactional-adapter-typeorm';
import { ClsModule } from 'nestjs-cls';
import { LockService, RedisLockModule, type RedisLockModuleOptions } from 'nestjs-locked';
import { lockAwareAdapter } from 'nestjs-locked/nestjs-cls';
import { DataSource } from 'typeorm';
import { afterTest } from '../support/after-test.js';
import type { ConnectionSettings } from '../support/databases.js';
import { openDataSource } from './data-source.js';

export type Host = TransactionHost<TransactionalAdapterTypeOrm>;

export interface ClsApp {
  readonly host: Host;
  readonly locks: LockService;
  readonly dataSource: DataSource;
  get<T>(type: abstract new (...args: never[]) => T): T;
}

export interface ClsAppOptions extends Omit<RedisLockModuleOptions, 'connection'> {
  readonly redisUrl: string;
  readonly type: 'postgres' | 'mysql';
  readonly settings: ConnectionSettings;
  readonly poolSize?: number;
  /** Used instead of a new one. */
  readonly dataSource?: DataSource;
  readonly providers?: Provider[];
}

/** Starts an application with Nest, nestjs-cls, TypeORM and the locks, wired as documented. Closed after the test. */
export async function startClsApp({
  redisUrl,
  type,
  settings,
  poolSize = 5,
  dataSource: given,
  providers = [],
  ...lockOptions
}: ClsAppOptions): Promise<ClsApp> {
  const dataSource = given ?? (await openDataSource(type, settings, poolSize));
  const database = { provide: DataSource, useValue: dataSource };

  @Module({ providers: [database], exports: [database] })
  class DatabaseModule {}

  @Module({
    imports: [
      ClsModule.forRoot({
        plugins: [
          new ClsPluginTransactional({
            imports: [DatabaseModule],
            adapter: lockAwareAdapter(
              new TransactionalAdapterTypeOrm({ dataSourceToken: DataSource }),
            ),
          }),
        ],
      }),
      RedisLockModule.forRoot({ connection: redisUrl, ...lockOptions }),
      DatabaseModule,
    ],
    providers,
  })
  class AppModule {}

  const app = await NestFactory.createApplicationContext(AppModule, {
    logger: false,
    abortOnError: false,
  });
  afterTest(() => app.close());
  return {
    host: app.get<Host>(TransactionHost),
    locks: app.get(LockService),
    dataSource,
    get: (token) => app.get(token),
  };
}
