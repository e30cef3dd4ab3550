import { readingsOf } from '../sql/sql-statements.js';

/**
 * The text of a statement passed to a client: a string, a template, `{ text }` of node-postgres, `{ sql }` of mysql2,
 * or a stream around a cursor.
 *
 * @returns undefined if it is not visible
 */
export function textOf(statement: unknown): string | undefined {
  if (typeof statement === 'string') return statement;
  if (isTemplate(statement)) return statement.join(PARAMETER);
  const { text, sql, cursor } = (statement ?? {}) as MaybeStatement;
  return [text, sql, cursor?.text].find((one) => typeof one === 'string');
}

/** Nearly every statement has none of these words, and is not parsed. */
const MAY_BEGIN = /\b(?:BEGIN|START)\b/i;
const BEGINS = /^(?:BEGIN|START\s+TRANSACTION)\b/i;

/** Whether a text begins a transaction of PostgreSQL. */
export function begins(text: string | undefined): boolean {
  if (text === undefined || !MAY_BEGIN.test(text)) return false;
  return readingsOf(text, 'postgres').some((statements) =>
    statements.some((one) => BEGINS.test(one)),
  );
}

interface MaybeStatement {
  readonly text?: string;
  readonly sql?: string;
  readonly cursor?: { readonly text?: string };
}

/** Replaces a value for parsing. */
const PARAMETER = ' $1 ';

/** The first argument of a template tag. */
export function isTemplate(value: unknown): value is readonly string[] {
  return Array.isArray(value) && 'raw' in value;
}

/** A query of postgres.js, which is sent when first awaited, unless it becomes a part of another one. */
export interface LazyQuery {
  strings: readonly string[];
  readonly args: readonly unknown[];
  readonly reject: (error: unknown) => void;
  readonly catch: (onError: () => void) => unknown;
  /** Sends it. */
  handler: (query: LazyQuery) => unknown;
}

export function isLazyQuery(value: unknown): value is LazyQuery {
  const { strings, args, handler, reject } = (value ?? {}) as Partial<LazyQuery>;
  return (
    Array.isArray(strings) &&
    Array.isArray(args) &&
    typeof handler === 'function' &&
    typeof reject === 'function'
  );
}

/** Its text, including the queries that are parts of it. */
export function textOfQuery({ strings, args }: LazyQuery): string {
  const [first = '', ...rest] = strings;
  return rest.reduce((text, next, i) => {
    const value = args[i];
    return text + (isLazyQuery(value) ? textOfQuery(value) : PARAMETER) + next;
  }, first);
}

/** A statement that ends a transaction, and nothing else. */
const WHOLE_ENDING =
  /^\s*(?:COMMIT|END|ROLLBACK|ABORT|PREPARE\s+TRANSACTION\s+'[^']*')(?:\s+(?:WORK|TRANSACTION))?(?:\s+AND\s+(?:NO\s+)?CHAIN)?(?:\s+(?:NO\s+)?RELEASE)?\s*$/i;

/**
 * Like `textOf` for a value that may not be a statement: it counts only if it is exactly a statement that ends a
 * transaction, which `End of the meeting` is not.
 */
export function endingTextOf(value: unknown): string | undefined {
  if (typeof value !== 'string' && !isTemplate(value)) return undefined;
  const text = textOf(value);
  return text?.split(';').some((one) => WHOLE_ENDING.test(one)) === true ? text : undefined;
}
