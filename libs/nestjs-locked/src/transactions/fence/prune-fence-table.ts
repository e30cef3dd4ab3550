import { assertIsFunction } from '../../core/arguments.js';
import { assertOptions, must, type OptionTable, withDefaults } from '../../core/option.js';
import { systemClock } from '../../core/time/clock.js';
import type { SqlDialect, TransactionQuery } from '../sql/database-session.js';
import { onlyValueOf, rowsOf, shown, textOf, unreadable, valuesOf } from '../sql/rows-of.js';
import { sqlErrorCode } from '../sql/sql-error.js';
import { FENCE_TABLE_OPTIONS, type FenceTableOptions } from './fence-table.js';

const DAY_MS = 86_400_000;
/** How many rows one statement reads. */
const PAGE = 1_000;
/** MySQL: the row is locked, and was not released in time. */
const LOCK_WAIT_TIMEOUT = 1205;

/** Identifies a fence table, and defines which rows are old. */
export interface PruneFenceTableOptions extends FenceTableOptions {
  /**
   * How long ago a key must have been claimed last, in milliseconds, at least one day. No transaction may last that
   * long, not even in a paused process. @default 7 days
   */
  readonly olderThanMs?: number;
}

const PRUNE_OPTIONS: OptionTable<PruneFenceTableOptions> = {
  ...FENCE_TABLE_OPTIONS,
  olderThanMs: {
    default: 7 * DAY_MS,
    shownDefault: '7 days',
    check: must(
      `a whole number of milliseconds from ${DAY_MS} (one day): a row may only go when no transaction can be left that it would refuse`,
      (value) => Number.isSafeInteger(value) && (value as number) >= DAY_MS,
    ),
  },
};

/**
 * Deletes the rows of keys not locked for days, a few at a time and none that is being claimed: for a job that runs
 * occasionally beside the application.
 *
 * A row refuses earlier holders, so it must outlive every transaction begun before it. The age of a row follows from
 * its token, compared with both the current time and the newest token of the table: a wrong clock of Redis does not
 * make rows look old.
 *
 * @param query runs a statement in autocommit mode: `(sql, params) => dataSource.query(sql, params)`. Placeholders are
 * `$1`, `$2` for PostgreSQL, `?` for MySQL and MariaDB
 * @returns how many rows were old
 * @throws LockConfigError
 */
export async function pruneFenceTable(
  query: TransactionQuery,
  options: PruneFenceTableOptions,
): Promise<number> {
  assertIsFunction(
    query,
    "pruneFenceTable((sql, params) => dataSource.query(sql, params), { dialect: 'postgres' })",
  );
  assertOptions(PRUNE_OPTIONS, options);
  const { dialect, table, olderThanMs } = withDefaults(PRUNE_OPTIONS, options);
  const prune = dialect === 'mysql' ? pruneOneByOne : prunePage;
  const run: Run = (sql, params) => query(withPlaceholders(dialect, sql), params);
  const newest = await newestToken(run, table);
  const oldest = Math.min(newest, systemClock.wallNow() * 1_000) - olderThanMs * 1_000;
  let count = 0;
  for (let after: unknown = ''; ;) {
    const page = await pageAfter(run, table, after);
    const last = page.at(-1);
    if (last === undefined) return count;
    const old = page.filter(({ token }) => token < oldest).map(({ key }) => key);
    if (old.length > 0) await prune(run, table, String(oldest), after, old);
    count += old.length;
    after = last.key;
  }
}

type Run = (sql: string, params: unknown[]) => Promise<unknown>;

/** A row of the fence table. */
interface FenceRow {
  /** As returned by the driver: binary in MySQL. */
  readonly key: unknown;
  readonly token: number;
}

const TOKEN = /^\d+$/;

async function newestToken(run: Run, table: string): Promise<number> {
  const question = 'the question for the newest token';
  const rows = rowsOf(
    await run(`SELECT concat(COALESCE(MAX(token), 0)) AS newest FROM ${table}`, []),
    question,
  );
  const newest = textOf(onlyValueOf(rows[0])) ?? '';
  return TOKEN.test(newest) ? Number(newest) : unreadable(question, shown(rows));
}

/** Reads values by position, because applications map the names of columns. */
async function pageAfter(run: Run, table: string, after: unknown): Promise<readonly FenceRow[]> {
  const question = 'the question for old keys';
  const sql = `SELECT lock_key AS claimed, concat(token) AS token FROM ${table}
    WHERE lock_key > ? ORDER BY lock_key LIMIT ${PAGE}`;
  const rows = rowsOf(await run(sql, [after]), question);
  return rows.map((row) => {
    const [key, token, ...others] = valuesOf(row);
    const isRead = textOf(key) !== undefined && TOKEN.test(textOf(token) ?? '');
    if (!isRead || others.length > 0) return unreadable(question, shown(rows));
    return { key, token: Number(token) };
  });
}

/** PostgreSQL skips rows that are being claimed, which are no longer old. */
async function prunePage(
  run: Run,
  table: string,
  oldest: string,
  after: unknown,
  old: readonly unknown[],
): Promise<void> {
  await run(
    `DELETE FROM ${table} WHERE lock_key IN (SELECT lock_key FROM ${table}
      WHERE token < ?::bigint AND lock_key > ? AND lock_key <= ? FOR UPDATE SKIP LOCKED)`,
    [oldest, after, old.at(-1)],
  );
}

/** Not every MySQL can skip locked rows, so each row is deleted separately and no claim waits for the others. */
async function pruneOneByOne(
  run: Run,
  table: string,
  oldest: string,
  _after: unknown,
  old: readonly unknown[],
): Promise<void> {
  for (const key of old) {
    const pruning = run(`DELETE FROM ${table} WHERE lock_key = ? AND token < ?`, [key, oldest]);
    await pruning.catch((error: unknown) => {
      if (sqlErrorCode(error) !== LOCK_WAIT_TIMEOUT) throw error;
    });
  }
}

function withPlaceholders(dialect: SqlDialect, sql: string): string {
  let n = 0;
  return dialect === 'mysql' ? sql : sql.replace(/\?/g, () => `$${++n}`);
}
