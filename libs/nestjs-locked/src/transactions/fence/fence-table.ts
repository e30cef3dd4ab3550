import { assertIsFunction } from '../../core/arguments.js';
import { assertOptions, type OptionTable, withDefaults } from '../../core/option.js';
import { FENCE_OPTIONS } from '../../core/transaction.options.js';
import type { SqlDialect } from '../sql/database-session.js';
import { dialectName } from '../sql/session-of.js';

/** Identifies a fence table. */
export interface FenceTableOptions {
  /** The dialect of its database; `'mysql'` also for MariaDB. */
  readonly dialect: SqlDialect;
  /** Its name. @default 'lock_fence' */
  readonly table?: string;
}

export const FENCE_TABLE_OPTIONS: OptionTable<FenceTableOptions> = {
  // Required, because the statement depends on the database.
  dialect: { isRequired: true, check: dialectName },
  table: FENCE_OPTIONS.table,
};

/**
 * The statement that creates the fence table if it does not exist: for migrations. The table gets one row for each key
 * ever locked around a transaction; `pruneFenceTable` deletes the rows of keys not locked for days.
 *
 * @throws LockConfigError
 */
export function fenceTableSql(options: FenceTableOptions): string {
  assertOptions(FENCE_TABLE_OPTIONS, options);
  const { dialect, table } = withDefaults(FENCE_TABLE_OPTIONS, options);
  // Keys have at most 512 bytes, plus the prefix of their service, and are compared bytewise.
  const key = dialect === 'mysql' ? 'VARBINARY(767)' : 'text';
  return `CREATE TABLE IF NOT EXISTS ${table} (lock_key ${key} PRIMARY KEY, token bigint NOT NULL)`;
}

/**
 * Creates the fence table if it does not exist: for tests and first steps; use migrations in production.
 *
 * @param query runs a statement: `(sql) => dataSource.query(sql)`
 * @throws LockConfigError
 */
export async function createFenceTable(
  query: (sql: string) => Promise<unknown>,
  options: FenceTableOptions,
): Promise<void> {
  assertIsFunction(
    query,
    "createFenceTable((sql) => dataSource.query(sql), { dialect: 'postgres' })",
  );
  await query(fenceTableSql(options));
}
