import { LockConfigError } from '../../core/lock.errors.js';
import { describeValue, shownValue } from '../../core/runtime/shown-value.js';

/** A row in any form: with original or mapped column names, as a list, or as a single value. */
export type Row = unknown;

/**
 * The rows in the answer of a driver or ORM: the list itself, `{ rows }` as in pg and Kysely, or the first element of a
 * pair as in mysql2. A row can itself be a list.
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

/** @param the statement's name in the message: `the claim of the fence` @throws LockConfigError if there is no list */
export function rowsOf(answer: unknown, what: string): readonly Row[] {
  return rowsIn(answer) ?? unreadable(what, `${describeValue(answer)} has no rows`);
}

/**
 * The values of a row in the order of its columns. Names are ignored, because applications map them. Tables can be
 * nested in a row.
 */
export function valuesOf(row: Row): readonly unknown[] {
  if (isValue(row)) return [row];
  return Object.values(row as object).flatMap((value: unknown) =>
    isValue(value) ? [value] : (Object.values(value as object) as unknown[]),
  );
}

/** The only value of a row, possibly under several names; undefined if there are several values. */
export function onlyValueOf(row: Row): unknown {
  const values = new Set(valuesOf(row));
  return values.size === 1 ? [...values][0] : undefined;
}

/** The string in the only row and column of an answer. @throws LockConfigError if there is none */
export function textIn(answer: unknown, what: string): string {
  const rows = rowsOf(answer, what);
  return (
    textOf(rows.length === 1 ? onlyValueOf(rows[0]) : undefined) ?? unreadable(what, shown(rows))
  );
}

const TOKENS = /^(?:\d+|-1)(?: (?:\d+|-1))*$/;

/** The tokens of this many keys, separated by spaces. @throws LockConfigError if they are missing */
export function tokensIn(answer: unknown, count: number): readonly number[] {
  const text = textIn(answer, 'the question for the tokens');
  const tokens = TOKENS.test(text) ? text.split(' ').map(Number) : [];
  if (tokens.length === count) return tokens;
  return unreadable('the question for the tokens', `${shownValue(text)} is not ${count} tokens`);
}

/**
 * @returns the value as a string, converted from a number or bytes if the driver returns those; undefined for anything
 * else
 */
export function textOf(value: unknown): string | undefined {
  if (typeof value === 'string') return value;
  const isText = ['number', 'bigint', 'boolean'].includes(typeof value) || Buffer.isBuffer(value);
  return isText ? String(value) : undefined;
}

/** Fails for an answer that cannot be interpreted as yes or no. @throws LockConfigError */
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

/** Rows and nested tables are lists and objects; everything else, such as bytes or a date, is a value. */
function isValue(value: unknown): boolean {
  if (typeof value !== 'object' || value === null) return true;
  return ArrayBuffer.isView(value) || value instanceof Date;
}
