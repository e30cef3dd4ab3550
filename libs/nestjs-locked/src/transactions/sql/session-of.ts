import { type Check, must } from '../../core/option.js';
import type {
  ConnectionState,
  DatabaseSession,
  SqlDialect,
  TransactionQuery,
} from './database-session.js';
import { KnownDatabase } from './known-database.js';
import { MySqlSession } from './mysql-session.js';
import { PostgresSession } from './postgres-session.js';

const DIALECTS: Readonly<Record<string, SqlDialect>> = {
  postgres: 'postgres',
  postgresql: 'postgres',
  pg: 'postgres',
  'aurora-postgres': 'postgres',
  cockroachdb: 'postgres',
  mysql: 'mysql',
  mysql2: 'mysql',
  mariadb: 'mysql',
  'aurora-mysql': 'mysql',
};

/**
 * @param name the ORM's name of its driver: `postgres`, `mariadb` @returns undefined for databases that cannot be
 * fenced
 */
export function dialectOf(name: unknown): SqlDialect | undefined {
  return typeof name === 'string' ? DIALECTS[name.toLowerCase()] : undefined;
}

/** Checks a given dialect. */
export const dialectName: Check = must(
  "'postgres' or 'mysql' (also for MariaDB)",
  (value) => value === 'postgres' || value === 'mysql',
);

/**
 * @param database the knowledge from earlier transactions
 * @param connection the state known to the driver; undefined if there is none and the database has to be asked
 */
export function sessionOf(
  dialect: SqlDialect,
  query: TransactionQuery,
  database: KnownDatabase = new KnownDatabase(),
  connection?: ConnectionState,
): DatabaseSession {
  switch (dialect) {
    case 'postgres':
      return new PostgresSession(query, database, connection);
    case 'mysql':
      return new MySqlSession(query, database);
  }
}
