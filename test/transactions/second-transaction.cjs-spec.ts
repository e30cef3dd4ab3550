import { Propagation } from '@nestjs-cls/transactional';
import { TransactionalAdapterDrizzleOrm } from '@nestjs-cls/transactional-adapter-drizzle-orm';
import { TransactionalAdapterTypeOrm } from '@nestjs-cls/transactional-adapter-typeorm';
import { drizzle, type NodePgDatabase } from 'drizzle-orm/node-postgres';
import { CompiledQuery, Kysely, PostgresDialect } from 'kysely';
import { lockAwareAdapter } from 'nestjs-locked/nestjs-cls';
import { lockAwareDataSource } from 'nestjs-locked/typeorm';
import pg from 'pg';
import { type DataSource, type EntityManager } from 'typeorm';
import {
  addTransactionalDataSource,
  deleteDataSourceByName,
  initializeTransactionalContext,
  Propagation as TheirPropagation,
  runInTransaction,
  StorageDriver,
} from 'typeorm-transactional';
import { type TestDatabase, usePostgres } from '../support/databases.js';
import { type Body, clsOrm, type ClsParts } from './cls-orm.js';
import { openDataSource } from './data-source.js';
import { drizzleRuns } from './drizzle-runs.js';
import { describeSecondTransactions, type SecondTransactions } from './second-transaction-suite.js';

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

/** Its pool cannot be reached, and is not given. */
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
      query: async (text, params) => (await tx.executeQuery(CompiledQuery.raw(text, params))).rows,
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
