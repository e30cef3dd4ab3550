import { MikroORM } from '@mikro-orm/postgresql';
import { CompiledQuery, Kysely, PostgresDialect } from 'kysely';
import { createPool } from 'mysql2/promise';
import { lockAwareTransactions } from 'nestjs-locked/transactions';
import { lockAwareDataSource } from 'nestjs-locked/typeorm';
import pg from 'pg';
import postgres from 'postgres';
import { Sequelize, type Transaction } from 'sequelize';
import type { DataSource, EntityManager } from 'typeorm';
import { useMariaDb, usePostgres } from '../support/databases.js';
import { describeWithMariaDb } from '../support/describe-if.js';
import { openDataSource } from './data-source.js';
import { mysql2Transactions } from './mysql2-transactions.js';
import { transactionsOf as kyselyTransactions } from './recipes/kysely.js';
import { transactionsOf as mikroOrmTransactions } from './recipes/mikro-orm.js';
import { transactionsOf as pgTransactions } from './recipes/node-postgres.js';
import { inTransaction } from './recipes/postgres-js.js';
import { transactionsOf as sequelizeTransactions } from './recipes/sequelize.js';
import { describeSecondTransactions, type SecondTransactions } from './second-transaction-suite.js';

const onDataSource =
  (
    type: 'postgres' | 'mysql',
    transaction: (
      dataSource: DataSource,
      body: (manager: EntityManager) => Promise<void>,
    ) => Promise<void>,
  ): SecondTransactions['open'] =>
  async ({ settings }, poolSize) => {
    const dataSource = lockAwareDataSource(await openDataSource(type, settings, poolSize));
    return {
      transaction: (body) =>
        transaction(dataSource, (manager) =>
          body({
            query: (sql, params) => manager.query(sql, params),
            again: { 'in a savepoint': (nested) => manager.transaction(() => nested()) },
          }),
        ),
      close: () => {},
    };
  };

const withCallback = (
  dataSource: DataSource,
  body: (manager: EntityManager) => Promise<void>,
): Promise<void> => dataSource.transaction(body);

/** Opens the first transaction with a callback, and the second one inside it by hand. */
function byHandInside(): typeof withCallback {
  let isInside = false;
  return async (dataSource, body) => {
    if (isInside) return byHand(dataSource, body);
    isInside = true;
    await withCallback(dataSource, body).finally(() => (isInside = false));
  };
}

async function byHand(
  dataSource: DataSource,
  body: (manager: EntityManager) => Promise<void>,
): Promise<void> {
  const runner = dataSource.createQueryRunner();
  try {
    await runner.startTransaction();
    await body(runner.manager);
    await runner.commitTransaction();
  } finally {
    await runner.release();
  }
}

const openPool = (connectionString: string, max: number): pg.Pool => {
  const pool = new pg.Pool({ connectionString, max });
  pool.on('error', () => {});
  return pool;
};

const POSTGRES: SecondTransactions[] = [
  { name: 'TypeORM', open: onDataSource('postgres', withCallback) },
  { name: 'TypeORM, by hand', open: onDataSource('postgres', byHandInside()) },
  {
    name: 'node-postgres',
    open: async ({ url }, poolSize) => {
      const pool = openPool(url, poolSize);
      const transaction = pgTransactions(pool);
      return {
        transaction: (body) =>
          transaction((client) =>
            body({
              query: async (sql, params: unknown[]) =>
                (await client.query<Record<string, unknown>>(sql, params)).rows,
            }),
          ),
        close: () => pool.end(),
      };
    },
  },
  {
    name: 'postgres.js',
    open: async ({ url }, max) => {
      const sql = postgres(url, { max, onnotice: () => {} });
      return {
        transaction: (body) =>
          inTransaction(sql, (tx) =>
            body({ query: (text, params: string[]) => tx.unsafe(text, params) }),
          ),
        close: () => sql.end({ timeout: 0 }),
      };
    },
  },
  {
    name: 'Kysely',
    open: async ({ url }, poolSize) => {
      const pool = openPool(url, poolSize);
      const database = new Kysely<unknown>({ dialect: new PostgresDialect({ pool }) });
      const transaction = kyselyTransactions(database, pool);
      return {
        transaction: (body) =>
          transaction((tx) =>
            body({
              query: async (sql, params: unknown[]) =>
                (await tx.executeQuery(CompiledQuery.raw(sql, params))).rows,
            }),
          ),
        close: () => database.destroy(),
      };
    },
  },
  {
    name: 'Sequelize',
    open: async ({ url }, max) => {
      const sequelize = new Sequelize(url, { logging: false, pool: { max } });
      const transaction = sequelizeTransactions(sequelize);
      const run = lockAwareTransactions<Transaction>({ dialect: 'postgres', pool: sequelize });
      return {
        transaction: (body) =>
          transaction((tx) =>
            body({
              query: async (sql, bind: unknown[]) =>
                (await sequelize.query(sql, { transaction: tx, bind }))[0],
              again: { joined: (work) => run((wrap) => wrap(tx, work)) },
            }),
          ),
        close: () => sequelize.close(),
      };
    },
  },
  {
    name: 'MikroORM',
    open: async ({ url }, max) => {
      const orm = await MikroORM.init({
        entities: [],
        discovery: { warnWhenNoEntities: false },
        clientUrl: url,
        pool: { min: 0, max },
      });
      const transaction = await mikroOrmTransactions(orm);
      const run = lockAwareTransactions({ dialect: 'postgres' });
      return {
        transaction: (body) =>
          transaction((em) =>
            body({
              query: (sql, params: unknown[]) => em.execute(sql.replace(/\$\d/g, '?'), params),
              again: { joined: (work) => run((wrap) => wrap(em, work)) },
            }),
          ),
        close: () => orm.close(true),
      };
    },
  },
];

for (const way of POSTGRES) describeSecondTransactions(usePostgres, way);

describeWithMariaDb('on MariaDB', () => {
  const MARIADB: SecondTransactions[] = [
    { name: 'TypeORM', open: onDataSource('mysql', withCallback) },
    {
      name: 'mysql2',
      open: async ({ settings }, connectionLimit) => {
        const pool = createPool({ ...settings, connectionLimit });
        const transaction = mysql2Transactions(pool);
        return {
          transaction: (body) =>
            transaction((client) =>
              body({
                query: async (sql, params: unknown[]) => (await client.query(sql, params))[0],
              }),
            ),
          close: () => pool.end(),
        };
      },
    },
  ];
  for (const way of MARIADB) describeSecondTransactions(useMariaDb, { ...way, dialect: 'mysql' });
});
