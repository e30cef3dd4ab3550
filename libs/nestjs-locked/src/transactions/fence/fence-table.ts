import { assertTableName } from '../../core/transaction.options.js';
import type { SqlDialect } from '../sql/database-session.js';
import { assertDialect } from '../sql/session-of.js';

/** Which fence table is meant. */
export interface FenceTableOptions {
  /** Of the database that it is in: MariaDB speaks that of MySQL. */
  readonly dialect: SqlDialect;
  /** Its name. @default 'lock_fence' */
  readonly table?: string;
}

/**
 * The statement that creates the fence table if it does not exist: for migrations. The table gets one row for each key
 * that is ever locked around a transaction; `pruneFenceTable` deletes the rows of keys that nobody has locked for days.
 *
 * @throws LockConfigError
 */
export function fenceTableSql({ dialect, table = 'lock_fence' }: FenceTableOptions): string {
  assertDialect(dialect);
  assertTableName(table);
  // Keys have 512 bytes at most, besides the prefix of their service, and compare by their bytes.
  const key = dialect === 'mysql' ? 'VARBINARY(767)' : 'text';
  return `CREATE TABLE IF NOT EXISTS ${table} (lock_key ${key} PRIMARY KEY, token bigint NOT NULL)`;
}

/**
 * Creates the fence table if it does not exist: for tests and first steps; production has migrations.
 *
 * @param query runs a statement: `(sql) => dataSource.query(sql)`
 */
export async function createFenceTable(
  query: (sql: string) => Promise<unknown>,
  options: FenceTableOptions,
): Promise<void> {
  await query(fenceTableSql(options));
}
