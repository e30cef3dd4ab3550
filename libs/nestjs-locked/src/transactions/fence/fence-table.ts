import { assertIsFunction } from '../../core/known-options.js';
import { assertChecked, type OptionChecks } from '../../core/option.js';
import { assertTableName } from '../../core/transaction.options.js';
import type { SqlDialect } from '../sql/database-session.js';
import { dialectName } from '../sql/session-of.js';

/** Which fence table is meant. */
export interface FenceTableOptions {
  /** Of the database that it is in: MariaDB speaks that of MySQL. */
  readonly dialect: SqlDialect;
  /** Its name. @default 'lock_fence' */
  readonly table?: string;
}

/** How they are checked. */
export const FENCE_TABLE_CHECKS: OptionChecks<FenceTableOptions> = {
  dialect: dialectName,
  table: (_, value) => assertTableName(value),
};

/** @throws LockConfigError for a wrong option, or without a dialect: the table would be that of another database */
export function assertTableOptions<Options extends FenceTableOptions>(
  checks: OptionChecks<Options>,
  options: Options,
): void {
  assertChecked(checks, options);
  dialectName('dialect', options.dialect);
}

/**
 * The statement that creates the fence table if it does not exist: for migrations. The table gets one row for each key
 * that is ever locked around a transaction; `pruneFenceTable` deletes the rows of keys that nobody has locked for days.
 *
 * @throws LockConfigError
 */
export function fenceTableSql(options: FenceTableOptions): string {
  assertTableOptions(FENCE_TABLE_CHECKS, options);
  const { dialect, table = 'lock_fence' } = options;
  // Keys have 512 bytes at most, besides the prefix of their service, and compare by their bytes.
  const key = dialect === 'mysql' ? 'VARBINARY(767)' : 'text';
  return `CREATE TABLE IF NOT EXISTS ${table} (lock_key ${key} PRIMARY KEY, token bigint NOT NULL)`;
}

/**
 * Creates the fence table if it does not exist: for tests and first steps; production has migrations.
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
