import { Module } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { ClsPluginTransactional, TransactionHost } from '@nestjs-cls/transactional';
import { TransactionalAdapterTypeOrm } from '@nestjs-cls/transactional-adapter-typeorm';
import { ClsModule } from 'nestjs-cls';
import { LockService, type LockServiceOptions, RedisLockModule } from 'nestjs-locked';
import { lockAwareAdapter } from 'nestjs-locked/nestjs-cls';
import { lockAwareDataSource } from 'nestjs-locked/typeorm';
import { DataSource, type Driver, type EntityManager } from 'typeorm';
import type { EventEmitter } from 'node:events';

/** How an application opens its transactions, and what its locks do. */
export interface TransactionRow {
  readonly name: string;
  readonly through: 'data source' | 'nestjs-cls';
  /** Whether the locks know of the transactions. Default: true. */
  readonly isAware?: boolean;
  /** The options of the locks; no locks if it is left out. */
  readonly lock?: LockServiceOptions;
  /**
   * Outside: one lock around all transactions of a round, because the cost of the transaction is wanted. Otherwise each
   * transaction takes a lock of its own, with two Redis commands. Default: outside.
   */
  readonly order?: 'outside' | 'around' | 'inside';
  readonly forUpdate?: boolean;
}

export interface TransactionApplication {
  readonly row: TransactionRow;
  readonly postgresUrl: string;
  readonly redisUrl: string;
}

export interface TransactionRound {
  /** What a transaction took, and how often PostgreSQL has answered. */
  readonly ms: number;
  readonly roundTrips: number;
}

/** What TypeORM leaves untyped: the pool, and the connection of its client. */
interface PostgresDriver extends Driver {
  readonly master: { connect(): Promise<{ connection: EventEmitter; release(): void }> };
}

type Act = () => Promise<void>;
type InTransaction = (id: string, around?: (work: Act) => Promise<void>) => Promise<void>;

/** An application as users have it, with one data source and one connection. @returns runs so many transactions */
export async function openTransactions({ row, postgresUrl, redisUrl }: TransactionApplication) {
  const { through, isAware = true, lock, order = 'outside', forUpdate = false } = row;
  const dataSource = new DataSource({
    type: 'postgres',
    url: postgresUrl,
    poolSize: 1,
    extra: { idleTimeoutMillis: 0 }, // other rows run for longer than the pool keeps an idle connection
  });
  await dataSource.initialize();
  let answers = 0;
  const client = await (dataSource.driver as PostgresDriver).master.connect();
  client.connection.on('readyForQuery', () => (answers += 1));
  client.release();
  if (isAware && through === 'data source') lockAwareDataSource(dataSource);

  const database = { provide: DataSource, useValue: dataSource };
  @Module({ providers: [database], exports: [database] })
  class DatabaseModule {}
  const adapter = new TransactionalAdapterTypeOrm({ dataSourceToken: DataSource });
  const plugin = new ClsPluginTransactional({
    imports: [DatabaseModule],
    adapter: isAware ? lockAwareAdapter(adapter) : adapter,
  });
  @Module({
    imports: [
      ...(through === 'nestjs-cls' ? [ClsModule.forRoot({ plugins: [plugin] })] : []),
      ...(lock === undefined ? [] : [RedisLockModule.forRoot({ connection: redisUrl, ...lock })]),
      DatabaseModule,
    ],
  })
  class ApplicationModule {}
  const application = await NestFactory.createApplicationContext(ApplicationModule, {
    logger: false,
  });

  const sell = async (manager: EntityManager, id: string): Promise<void> => {
    const select = 'SELECT quantity FROM bench_stock WHERE id = $1';
    await manager.query(forUpdate ? `${select} FOR UPDATE` : select, [id]);
    await manager.query('UPDATE bench_stock SET quantity = quantity + 1 WHERE id = $1', [id]);
  };
  const inTransaction: InTransaction =
    through === 'data source'
      ? (id, around = (work) => work()) =>
          dataSource.transaction((manager) => around(() => sell(manager, id)))
      : (id, around = (work) => work()) => {
          const host = application.get(TransactionHost<TransactionalAdapterTypeOrm>);
          return host.withTransaction(() => around(() => sell(host.tx, id)));
        };
  const locks = lock && application.get(LockService);
  const underLock = async (key: string, work: Act): Promise<void> =>
    locks === undefined ? work() : locks.withLock(key, work);
  const one = {
    outside: inTransaction,
    around: (id: string) => underLock(id, () => inTransaction(id)),
    inside: (id: string) => inTransaction(id, (work) => underLock(id, work)),
  }[order];

  return async (count: number, keys: number): Promise<TransactionRound> => {
    answers = 0;
    let ms = NaN;
    const measured = async (): Promise<void> => {
      const from = performance.now();
      for (let n = 0; n < count; n += 1) await one(`p${n % keys}`);
      ms = (performance.now() - from) / count;
    };
    await (order === 'outside' ? underLock('bench', measured) : measured());
    return { ms, roundTrips: answers / count };
  };
}
