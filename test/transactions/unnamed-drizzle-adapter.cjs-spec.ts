/** An adapter without a name, in a process in which nothing else goes by the name that it has. */
import { expect, it } from '@jest/globals';
import { Module } from '@nestjs/common';
import { ClsPluginTransactional } from '@nestjs-cls/transactional';
import { TransactionalAdapterDrizzleOrm } from '@nestjs-cls/transactional-adapter-drizzle-orm';
import { drizzle } from 'drizzle-orm/node-postgres';
import { ClsModule } from 'nestjs-cls';
import { LockService, RedisLockModule } from 'nestjs-locked';
import { lockAwareAdapter } from 'nestjs-locked/nestjs-cls';
import { lockAwareDataSource } from 'nestjs-locked/typeorm';
import { afterTest } from '../support/after-test.js';
import { usePostgres } from '../support/databases.js';
import { startNest } from '../support/nest-app.js';
import { useRedis } from '../support/shared-redis.js';
import { openPool } from './cls-orm.js';
import { openDataSource } from './data-source.js';
import { useStock } from './stock.js';

const redis = useRedis();
const postgres = usePostgres();
const stock = useStock(postgres);

it('is known from the start: a transaction that the fence leaves out is not refused', async () => {
  const dataSource = lockAwareDataSource(await openDataSource('postgres', postgres.settings), {
    connectionName: 'named',
  });
  const pool = openPool(postgres.url);
  afterTest(() => pool.end());
  const database = { provide: 'drizzle', useValue: drizzle(pool) };

  @Module({ providers: [database], exports: [database] })
  class DatabaseModule {}

  const plugin = new ClsPluginTransactional({
    imports: [DatabaseModule],
    adapter: lockAwareAdapter(
      new TransactionalAdapterDrizzleOrm({ drizzleInstanceToken: 'drizzle' }),
    ),
  });
  const app = await startNest({
    imports: [
      ClsModule.forRoot({ plugins: [plugin] }),
      RedisLockModule.forRoot({ connection: redis.url, fence: { connections: ['default'] } }),
    ],
  });
  await app
    .get(LockService)
    .withLock(stock.key, () => dataSource.transaction((manager) => stock.takeOne(manager)));
  expect([await stock.quantity(), await stock.fence()]).toEqual([99, NaN]);
});
