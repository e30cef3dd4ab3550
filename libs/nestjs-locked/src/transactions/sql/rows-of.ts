import { LockConfigError } from '../../core/lock.errors.js';
import { describeValue, shownValue } from '../../core/runtime/shown-value.js';

/** A row in whichever form it comes: with the names of its columns or others, as a list, or as a value alone. */
export type Row = unknown;

/**
 * The rows in what a driver or ORM answers: the list itself, `{ rows }` as from pg and Kysely, or the first element of
 * a pair as from mysql2. A row can be a list itself.
 *
 * @returns undefined if there is no list
 */
export function rowsIn(answer: unknown): readonly Row[] | undefined {
  if (Array.isArray(answer)) {
    const rows: readonly Row[] = answer;
    const [first] = rows;
    if (!Array.isArray(first)) return rows;
    const inside: readonly unknown[] = first;
    const isRow = inside.length > 0 && isValue(inside[0]);
    return isRow ? rows : inside;
  }
  if (typeof answer === 'object' && answer !== null && 'rows' in answer) return rowsIn(answer.rows);
  return undefined;
}

/** @param what was asked, for the message: `the claim of the fence` @throws LockConfigError if there is no list */
export function rowsOf(answer: unknown, what: string): readonly Row[] {
  return rowsIn(answer) ?? unreadable(what, `${describeValue(answer)} has no rows`);
}

/**
 * The values of a row in the order of its columns. Applications map the names of columns, so names tell nothing. Tables
 * can be nested in a row.
 */
export function valuesOf(row: Row): readonly unknown[] {
  if (isValue(row)) return [row];
  return Object.values(row as object).flatMap((value: unknown) =>
    isValue(value) ? [value] : (Object.values(value as object) as unknown[]),
  );
}

/** The value of a row that has only one, which may be there under several names; undefined if it has others. */
export function onlyValueOf(row: Row): unknown {
  const values = new Set(valuesOf(row));
  return values.size === 1 ? [...values][0] : undefined;
}

/** The text in the only row of an answer, which has only one column. @throws LockConfigError if there is none */
export function textIn(answer: unknown, what: string): string {
  const rows = rowsOf(answer, what);
  return (
    textOf(rows.length === 1 ? onlyValueOf(rows[0]) : undefined) ?? unreadable(what, shown(rows))
  );
}

const TOKENS = /^\d+( \d+)*$/;

/** The tokens of this many keys, with spaces in between. @throws LockConfigError if they are not there */
export function tokensIn(answer: unknown, count: number): readonly number[] {
  const text = textIn(answer, 'the question for the tokens');
  const tokens = TOKENS.test(text) ? text.split(' ').map(Number) : [];
  if (tokens.length === count) return tokens;
  return unreadable('the question for the tokens', `${shownValue(text)} is not ${count} tokens`);
}

/** @returns the value as text, as which drivers may also give numbers and bytes; undefined if it is something else */
export function textOf(value: unknown): string | undefined {
  if (typeof value === 'string') return value;
  const isText = ['number', 'bigint', 'boolean'].includes(typeof value) || Buffer.isBuffer(value);
  return isText ? String(value) : undefined;
}

/** The database has answered, and nobody knows what: that is neither yes nor no. @throws LockConfigError */
export function unreadable(what: string, why: string): never {
  throw new LockConfigError(
    `Cannot read what the database has answered to ${what}: ${why}; something between the driver and this library changes its answers (a mapper of rows, a parser of values, or the option query): give a query that returns the rows as the driver has them`,
  );
}

/** An answer for a message, without its values, which may be secret. */
export function shown(rows: readonly Row[]): string {
  const [row] = rows;
  const columns = isValue(row) ? describeValue(row) : Object.keys(row as object).join(', ');
  return `it has ${rows.length} rows, the first with ${columns}`;
}

/** Rows, and tables in them, are lists and objects; everything else is a value, such as bytes or a date. */
function isValue(value: unknown): boolean {
  if (typeof value !== 'object' || value === null) return true;
  return ArrayBuffer.isView(value) || value instanceof Date;
}
