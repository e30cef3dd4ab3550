import { beforeAll, describe, expect, it } from '@jest/globals';
import { Injectable, Module, type Type } from '@nestjs/common';
import {
  ClsPluginTransactional,
  getTransactionHostToken,
  Propagation,
  Transactional,
} from '@nestjs-cls/transactional';
import { TransactionalAdapterDrizzleOrm } from '@nestjs-cls/transactional-adapter-drizzle-orm';
import { TransactionalAdapterTypeOrm } from '@nestjs-cls/transactional-adapter-typeorm';
import { drizzle, type NodePgDatabase } from 'drizzle-orm/node-postgres';
import { CompiledQuery, Kysely, PostgresDialect } from 'kysely';
import { ClsModule } from 'nestjs-cls';
import {
  Locked,
  LockInTransactionError,
  LockLostError,
  LockService,
  RedisLockModule,
  type RedisLockModuleOptions,
} from 'nestjs-locked';
import { lockAwareAdapter } from 'nestjs-locked/nestjs-cls';
import { lockAwareDataSource } from 'nestjs-locked/typeorm';
import pg from 'pg';
import type { DataSource, EntityManager } from 'typeorm';
import {
  addTransactionalDataSource,
  deleteDataSourceByName,
  initializeTransactionalContext,
  Propagation as TheirPropagation,
  runInTransaction,
  StorageDriver,
} from 'typeorm-transactional';
import { setTimeout as sleep } from 'node:timers/promises';
import { type TestDatabase, usePostgres } from '../support/databases.js';
import { makeGate } from '../support/gate.js';
import { startNest } from '../support/nest-app.js';
import { useRedis } from '../support/shared-redis.js';
import type { Host } from '../transactions/cls-app.js';
import { openDataSource } from '../transactions/data-source.js';
import { drizzleRuns } from '../transactions/drizzle-runs.js';
import { isHeld } from '../transactions/locks.js';
import {
  describeSecondTransactions,
  type SecondTransactions,
} from '../transactions/second-transaction-suite.js';
import { createSlowCommitTable, killCommits } from '../transactions/slow-commit.js';
import { useStock } from '../transactions/stock.js';
import { type Body, clsOrm, type ClsParts } from './cls-orm.js';

describe('two connections', () => {
  const redis = useRedis();
  const shop = usePostgres();
  const audit = usePostgres();
  const stock = useStock(shop);

  beforeAll(async () => {
    await createSlowCommitTable(shop);
    await audit.query('CREATE TABLE entries (product text NOT NULL)');
  });

  const held = (): Promise<boolean> => isHeld(redis.url, stock.key);

  const entries = async (): Promise<number> =>
    (await audit.query('SELECT 1 FROM entries WHERE product = $1', [stock.product])).length;

  interface TwoHosts {
    readonly shopHost: Host;
    readonly auditHost: Host;
    readonly locks: LockService;
    readonly shopDataSource: DataSource;
    get<T>(type: Type<T>): T;
  }

  /** Creates a plug-in and a data source for a database. */
  async function pluginFor(
    connectionName: string,
    { settings }: TestDatabase,
  ): Promise<ClsPluginTransactional> {
    const token = `${connectionName}-data-source`;
    const provider = { provide: token, useValue: await openDataSource('postgres', settings, 12) };

    @Module({ providers: [provider], exports: [provider] })
    class DatabaseModule {}

    const adapter = new TransactionalAdapterTypeOrm({ dataSourceToken: token });
    return new ClsPluginTransactional({
      connectionName,
      imports: [DatabaseModule],
      adapter: lockAwareAdapter(adapter, { connectionName }),
    });
  }

  async function start(
    options: Omit<RedisLockModuleOptions, 'connection'> = {},
    providers: Type[] = [],
  ): Promise<TwoHosts> {
    const plugins = [await pluginFor('shop', shop), await pluginFor('audit', audit)];
    const app = await startNest({
      imports: [
        ClsModule.forRoot({ plugins }),
        RedisLockModule.forRoot({ connection: redis.url, ...options }),
      ],
      providers,
    });
    return {
      shopHost: app.get<Host>(getTransactionHostToken('shop')),
      auditHost: app.get<Host>(getTransactionHostToken('audit')),
      locks: app.get(LockService),
      shopDataSource: app.get('shop-data-source'),
      get: (type) => app.get(type),
    };
  }

  const note = async ({ tx }: Host): Promise<void> =>
    void (await tx.query('INSERT INTO entries VALUES ($1)', [stock.product]));

  /** The database of audit has no fence table. */
  const fence = { connections: ['shop'] };

  type Order = [string, (app: TwoHosts) => readonly [outer: Host, inner: Host]];
  const ORDERS: Order[] = [
    ['shop around audit', ({ shopHost, auditHost }) => [shopHost, auditHost]],
    ['audit around shop', ({ shopHost, auditHost }) => [auditHost, shopHost]],
  ];

  describe.each(ORDERS)('%s', (_, hosts) => {
    it('keeps a lock from the inner transaction until the outer one has ended', async () => {
      const app = await start({ insideTransaction: 'restart', fence });
      const [outer, inner] = hosts(app);
      await outer.withTransaction(async () => {
        await inner.withTransaction(async () => {
          await app.locks.withLock(stock.key, async () => {
            await stock.takeOne(app.shopHost.tx);
            await note(app.auditHost);
          });
        });
        expect(await held()).toBe(true);
      });
      expect([await held(), await stock.quantity(), await entries()]).toEqual([false, 99, 1]);
      expect(await stock.fence()).toBeGreaterThan(0);
    });

    it('refuses a lock in the inner transaction, with its name', async () => {
      const app = await start();
      const [outer, inner] = hosts(app);
      const failure: unknown = await outer
        .withTransaction(() =>
          inner.withTransaction(() => app.locks.withLock(stock.key, async () => {})),
        )
        .catch((error: unknown) => error);
      expect(failure).toBeInstanceOf(LockInTransactionError);
      const name = inner === app.shopHost ? 'shop' : 'audit';
      expect((failure as Error).message).toContain(`(on connection '${name}', started`);
    });

    it('restarts both for a lock requested in the inner one, and loses no update', async () => {
      const app = await start({ insideTransaction: 'restart', fence });
      const [outer, inner] = hosts(app);
      await Promise.all(
        Array.from({ length: 10 }, () =>
          outer.withTransaction({ isolationLevel: 'REPEATABLE READ' }, async () => {
            await outer.tx.query('SELECT count(*) FROM pg_class');
            await inner.withTransaction({ isolationLevel: 'READ COMMITTED' }, async () => {
              await app.locks.withLock(stock.key, () => stock.takeOne(app.shopHost.tx));
              await note(app.auditHost);
            });
          }),
        ),
      );
      expect([await held(), await stock.quantity(), await entries()]).toEqual([false, 90, 10]);
    });

    it('are guarded by an outer lock until the later one has ended', async () => {
      const app = await start({ fence });
      const [outer, inner] = hosts(app);
      const [taken, end] = [makeGate(), makeGate()];
      let transaction: Promise<void> | undefined;
      await app.locks.withLock(stock.key, async () => {
        transaction = outer.withTransaction(async () => {
          await inner.withTransaction(() => stock.takeOne(app.shopHost.tx));
          taken.open();
          await end.opened;
        });
        await taken.opened;
      });
      expect(await held()).toBe(true);
      end.open();
      await transaction;
      expect([await held(), await stock.quantity()]).toEqual([false, 99]);
    });

    it('commits nothing after the loss of a lock from the inner transaction', async () => {
      const app = await start({ insideTransaction: 'restart' });
      const [outer, inner] = hosts(app);
      const sale = outer.withTransaction(async () => {
        await (outer === app.shopHost ? stock.takeOne(outer.tx) : note(outer));
        await inner.withTransaction(() => app.locks.withLock(stock.key, async () => {}));
        await app.locks.forceRelease(stock.key);
        await sleep(50);
      });
      await expect(sale).rejects.toBeInstanceOf(LockLostError);
      expect([await stock.quantity(), await entries()]).toEqual([100, 0]);
    });
  });

  describe('two connections', () => {
    it('are guarded by one decorator outside both', async () => {
      @Injectable()
      class Sales {
        @Locked(() => stock.key)
        @Transactional('shop')
        async sell(host: Host, inside: () => Promise<void>): Promise<void> {
          await stock.takeOne(host.tx);
          await inside();
        }
      }
      const app = await start({ fence }, [Sales]);
      await app
        .get(Sales)
        .sell(app.shopHost, () => app.auditHost.withTransaction(() => note(app.auditHost)));
      expect([await held(), await stock.quantity(), await entries()]).toEqual([false, 99, 1]);
    });

    it('also have their names for transactions opened on the data source itself', async () => {
      const { locks, shopDataSource } = await start({ fence });
      await locks.withLock(stock.key, () =>
        shopDataSource.transaction((manager) => stock.takeOne(manager)),
      );
      expect(await stock.quantity()).toBe(99);
      expect(await stock.fence()).toBeGreaterThan(0);
    });

    it('keep the key if the outer COMMIT was not answered, even for a lock from the inner one', async () => {
      const app = await start({ insideTransaction: 'restart' });
      const sale = app.shopHost.withTransaction(async () => {
        await app.shopHost.tx.query('INSERT INTO slow VALUES (1)');
        await app.auditHost.withTransaction(() =>
          app.locks.withLock(stock.key, { leaseMs: 1_500 }, () => note(app.auditHost)),
        );
      });
      await sleep(300);
      await Promise.all([expect(sale).rejects.toThrow(), killCommits(shop)]);
      expect([await held(), await entries()]).toEqual([true, 1]);
    });
  });
});

describe('a second transaction', () => {
  const { Nested, Required, RequiresNew } = Propagation;

  const openPool = ({ url }: TestDatabase, max: number): pg.Pool => {
    const pool = new pg.Pool({ connectionString: url, max });
    pool.on('error', () => {});
    return pool;
  };

  /** Each transaction is opened with REQUIRES_NEW. */
  const onCls = (
    name: string,
    parts: (database: TestDatabase, poolSize: number) => ClsParts | Promise<ClsParts>,
    again: readonly Propagation[] = [Required, Nested],
  ): SecondTransactions => ({
    name: `nestjs-cls and ${name}`,
    open: async (database, poolSize) => {
      const orm = await clsOrm(name, () => parts(database, poolSize)).open(database.url);
      return {
        transaction: (body) =>
          orm.run(RequiresNew, () =>
            body({
              query: (sql, params) => orm.tx().query(sql, params),
              again: Object.fromEntries(
                again.map((propagation) => [propagation, (work) => orm.run(propagation, work)]),
              ),
            }),
          ),
        close: () => orm.close(),
      };
    },
  });

  const typeOrm = async (database: TestDatabase, poolSize: number): Promise<ClsParts> => ({
    adapter: lockAwareAdapter(new TransactionalAdapterTypeOrm({ dataSourceToken: 'typeorm' })),
    connection: await openDataSource('postgres', database.settings, poolSize),
    isolated: () => ({}),
    runs: (manager: EntityManager) => manager,
    close: async () => {},
  });

  const onDrizzle = (database: TestDatabase, poolSize: number): ClsParts => {
    const pool = openPool(database, poolSize);
    return {
      adapter: lockAwareAdapter(
        new TransactionalAdapterDrizzleOrm<NodePgDatabase>({ drizzleInstanceToken: 'drizzle' }),
      ),
      connection: drizzle(pool),
      isolated: () => ({}),
      runs: drizzleRuns,
      close: () => pool.end(),
    };
  };

  /** The library cannot reach Kysely's pool, and it is not passed as an option. */
  const kysely = (database: TestDatabase, poolSize: number): ClsParts => {
    const connection = new Kysely<unknown>({
      dialect: new PostgresDialect({ pool: openPool(database, poolSize) }),
    });
    const optionsFactory = (kysely: Kysely<unknown>) => ({
      wrapWithTransaction: (_: object, body: Body, setTx: (tx: Kysely<unknown>) => void) =>
        kysely.transaction().execute((tx) => {
          setTx(tx);
          return body() as Promise<unknown>;
        }),
      getFallbackInstance: () => kysely,
    });
    return {
      adapter: lockAwareAdapter({ connection, optionsFactory }),
      isolated: () => ({}),
      runs: (tx: Kysely<unknown>) => ({
        query: async (text, params) =>
          (await tx.executeQuery(CompiledQuery.raw(text, params))).rows,
      }),
      close: () => connection.destroy(),
    };
  };

  const TRANSACTIONAL: SecondTransactions = {
    name: 'typeorm-transactional',
    open: async ({ settings }, poolSize) => {
      initializeTransactionalContext({ storageDriver: StorageDriver.ASYNC_LOCAL_STORAGE });
      const dataSource: DataSource = lockAwareDataSource(
        await openDataSource('postgres', settings, poolSize),
        { runInTransaction },
      );
      addTransactionalDataSource(dataSource);
      const propagate =
        (propagation: TheirPropagation) =>
        (work: () => Promise<void>): Promise<void> =>
          runInTransaction(work, { propagation });
      return {
        transaction: (body) =>
          propagate(TheirPropagation.REQUIRES_NEW)(() =>
            body({
              query: (sql, params) => dataSource.query(sql, params),
              again: { [Required]: propagate(TheirPropagation.REQUIRED) },
            }),
          ),
        close: () => deleteDataSourceByName('default'),
      };
    },
  };

  const WAYS = [
    onCls('TypeORM', typeOrm),
    onCls('Drizzle', onDrizzle),
    onCls('Kysely without its pool', kysely, [Required]),
    TRANSACTIONAL,
  ];

  for (const way of WAYS) describeSecondTransactions(usePostgres, way);
});
