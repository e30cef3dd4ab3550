/**
 * One row of `tools/bench/transactions.mjs`: an application as users have it, with one data source and one connection.
 * Its row is the first argument; on each message it runs its transactions once and answers how long one of them took.
 */
import { Module } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { ClsPluginTransactional, TransactionHost } from '@nestjs-cls/transactional';
import { TransactionalAdapterTypeOrm } from '@nestjs-cls/transactional-adapter-typeorm';
import { ClsModule } from 'nestjs-cls';
import { LockService, RedisLockModule } from 'nestjs-locked';
import { lockAwareAdapter } from 'nestjs-locked/nestjs-cls';
import { lockAwareDataSource } from 'nestjs-locked/typeorm';
import { DataSource } from 'typeorm';

import 'reflect-metadata';

/**
 * @typedef {object} Row
 * @property {string} name
 * @property {'data source' | 'nestjs-cls'} through how its transactions are opened
 * @property {boolean} [aware] whether the locks know of them, true if it is left out
 * @property {object} [lock] the options of the locks; no locks if it is left out
 * @property {'outside' | 'around' | 'inside'} [order] outside: one lock around all transactions of a round, because the
 * cost of the transaction is wanted. Otherwise each transaction takes a lock of its own, with two Redis commands.
 * @property {boolean} [forUpdate]
 */

const { row, postgresUrl, redisUrl, transactions, keys } = JSON.parse(process.argv[2]);
/** @type {Row} */
const { through, aware = true, lock, order = 'outside', forUpdate = false } = row;

const dataSource = new DataSource({
  type: 'postgres',
  url: postgresUrl,
  poolSize: 1,
  extra: { idleTimeoutMillis: 0 }, // other rows run for longer than the pool keeps an idle connection
});
await dataSource.initialize();
let answers = 0;
const client = await dataSource.driver.master.connect();
client.connection.on('readyForQuery', () => (answers += 1));
client.release();
if (aware && through === 'data source') lockAwareDataSource(dataSource);

const application = await NestFactory.createApplicationContext(
  applicationModule(through === 'nestjs-cls'),
  { logger: false },
);
const locks = lock === undefined ? undefined : application.get(LockService);
const inTransaction = through === 'nestjs-cls' ? throughHost() : throughDataSource();
const one = {
  outside: inTransaction,
  around: (id) => locks.withLock(id, () => inTransaction(id)),
  inside: (id) => inTransaction(id, (work) => locks.withLock(id, work)),
}[order];

process.on('message', () => void answerWithOneRound());
process.on('disconnect', () => process.exit());
process.send({ ready: true });

async function answerWithOneRound() {
  answers = 0;
  const ms =
    locks !== undefined && order === 'outside'
      ? await locks.withLock('bench', measured)
      : await measured();
  process.send({ ms, roundTrips: answers / transactions });
}

async function measured() {
  const from = performance.now();
  for (let n = 0; n < transactions; n += 1) await one(`p${n % keys}`);
  return (performance.now() - from) / transactions;
}

function throughDataSource() {
  return (id, around = (work) => work()) =>
    dataSource.transaction((manager) => around(() => sell(manager, id)));
}

function throughHost() {
  const host = application.get(TransactionHost);
  return (id, around = (work) => work()) =>
    host.withTransaction(() => around(() => sell(host.tx, id)));
}

async function sell(manager, id) {
  const locking = forUpdate ? ' FOR UPDATE' : '';
  await manager.query(`SELECT quantity FROM bench_stock WHERE id = $1${locking}`, [id]);
  await manager.query('UPDATE bench_stock SET quantity = quantity + 1 WHERE id = $1', [id]);
}

function applicationModule(usesCls) {
  class DatabaseModule {}
  const database = { provide: DataSource, useValue: dataSource };
  Module({ providers: [database], exports: [database] })(DatabaseModule);
  const adapter = new TransactionalAdapterTypeOrm({ dataSourceToken: DataSource });
  const plugin = new ClsPluginTransactional({
    imports: [DatabaseModule],
    adapter: aware ? lockAwareAdapter(adapter) : adapter,
  });
  class ApplicationModule {}
  const imports = [
    ...(usesCls ? [ClsModule.forRoot({ plugins: [plugin] })] : []),
    ...(lock === undefined ? [] : [RedisLockModule.forRoot({ connection: redisUrl, ...lock })]),
    DatabaseModule,
  ];
  Module({ imports })(ApplicationModule);
  return ApplicationModule;
}
