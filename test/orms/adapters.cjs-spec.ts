import { describe, expect, it } from '@jest/globals';
import { Module, type ModuleMetadata } from '@nestjs/common';
import { ClsPluginTransactional } from '@nestjs-cls/transactional';
import { TransactionalAdapterDrizzleOrm } from '@nestjs-cls/transactional-adapter-drizzle-orm';
import { TransactionalAdapterTypeOrm } from '@nestjs-cls/transactional-adapter-typeorm';
import { drizzle } from 'drizzle-orm/node-postgres';
import { ClsModule } from 'nestjs-cls';
import { LockService, RedisLockModule, type RedisLockModuleOptions } from 'nestjs-locked';
import { lockAwareAdapter } from 'nestjs-locked/nestjs-cls';
import { lockAwareDataSource } from 'nestjs-locked/typeorm';
import type { DataSource } from 'typeorm';
import { afterTest } from '../support/after-test.js';
import { usePostgres } from '../support/databases.js';
import { startNest } from '../support/nest-app.js';
import { useRedis } from '../support/shared-redis.js';
import { spyOnWarnings } from '../support/spy-on-warnings.js';
import { openDataSource } from '../transactions/data-source.js';
import { useStock } from '../transactions/stock.js';
import { openPool } from './cls-orm.js';

describe('adapters without a fence', () => {
  const redis = useRedis();
  const postgres = usePostgres();

  const typeOrm = (): TransactionalAdapterTypeOrm =>
    new TransactionalAdapterTypeOrm({ dataSourceToken: 'typeorm' });
  const drizzleOrm = () => new TransactionalAdapterDrizzleOrm({ drizzleInstanceToken: 'drizzle' });

  /** @returns the warnings at the start of an application with these adapters */
  async function warningsAtStart(
    adapters: Record<string, ReturnType<typeof drizzleOrm> | TransactionalAdapterTypeOrm>,
    dataSource: DataSource,
    fence: RedisLockModuleOptions['fence'] = true,
  ): Promise<unknown[]> {
    const pool = openPool(postgres.url);
    afterTest(() => pool.end());
    const providers = [
      { provide: 'typeorm', useValue: dataSource },
      { provide: 'drizzle', useValue: drizzle(pool) },
    ];

    @Module({ providers, exports: providers })
    class DatabaseModule {}

    const plugins = Object.entries(adapters).map(
      ([connectionName, adapter]) =>
        new ClsPluginTransactional({
          imports: [DatabaseModule],
          adapter: adapter as TransactionalAdapterTypeOrm,
          ...(connectionName === '' ? {} : { connectionName }),
        }),
    );
    const imports: ModuleMetadata['imports'] = [
      ClsModule.forRoot({ plugins }),
      RedisLockModule.forRoot({ connection: redis.url, fence }),
    ];
    const warnings = spyOnWarnings();
    await startNest({ imports });
    return warnings();
  }

  it.each([
    ['reports', 'reports'],
    ['', 'default'],
  ])(
    'an adapter that is not lock-aware logs a warning beside one that is: named %j',
    async (name, said) => {
      const dataSource = lockAwareDataSource(await openDataSource('postgres', postgres.settings));
      const shop = lockAwareAdapter(drizzleOrm(), { connectionName: 'shop' });
      const adapters = { shop, [name]: drizzleOrm() };
      expect(await warningsAtStart(adapters, dataSource)).toEqual([
        `An adapter of @nestjs-cls/transactional (connection '${said}') is not lock-aware: its transactions and statements under a lock are not fenced; wrap it with lockAwareAdapter of nestjs-locked/nestjs-cls, or name the connections that have a fence table in fence.connections`,
      ]);
    },
  );

  it('adapters that are not lock-aware log no warning if the fence has names', async () => {
    const dataSource = lockAwareDataSource(await openDataSource('postgres', postgres.settings));
    const fence = { connections: ['default'] };
    expect(await warningsAtStart({ reports: drizzleOrm() }, dataSource, fence)).toEqual([]);
  });

  it('an adapter logs no warning if its data source is lock-aware', async () => {
    const dataSource = lockAwareDataSource(await openDataSource('postgres', postgres.settings));
    expect(await warningsAtStart({ shop: typeOrm() }, dataSource)).toEqual([]);
  });

  it('a data source logs one warning, and its adapter none, if neither is lock-aware', async () => {
    const dataSource = await openDataSource('postgres', postgres.settings);
    expect(await warningsAtStart({ shop: typeOrm() }, dataSource)).toEqual([
      expect.stringMatching(
        /^A data source of TypeORM \(postgres, .*wrap it .* nestjs-locked\/typeorm/,
      ),
    ]);
  });
});

/** Without a connection name, the adapter's connection is 'default', the only one that the fence covers. */
describe('an adapter of Drizzle without a connection name', () => {
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
});
