/** The parts of an error with the database's answer, from any library. */
interface SqlError {
  readonly code?: unknown;
  readonly errno?: unknown;
  /** Prisma's driver adapters. */
  readonly originalCode?: unknown;
}

/** The properties in which ORMs put the error of the driver, or of another library that they wrap. */
const INNER_ERRORS = [
  'cause',
  'driverError', // TypeORM
  'original', // Sequelize
  'parent', // Sequelize
  'meta', // Prisma
  'driverAdapterError', // Prisma
] as const;
/** More than any ORM wraps; a limit, because errors can contain each other. */
const MAX_ERRORS = 20;

const SQLSTATE = /^(?=.*\d)[0-9A-Z]{5}$/;
/** `P2010`: Prisma's own codes look like SQLSTATEs, those of PL/pgSQL begin with P0. */
const PRISMA_CODE = /^P[1-9]\d{3}$/;
/** Prisma has MySQL's numbers as strings. */
const MYSQL_NUMBER = /^\d{4}$/;

/** SQLSTATE, or MySQL's error number; undefined if the error does not come from the database. */
export function sqlErrorCode(error: unknown): string | number | undefined {
  for (const inner of innerErrors(error)) {
    const { code, errno, originalCode } = inner as SqlError;
    const answer = answerOf(code) ?? answerOf(originalCode);
    if (answer !== undefined) return answer;
    // A driver's own failures have negative numbers (errors of the operating system), names, or none.
    if (typeof errno === 'number' && errno > 0) return errno;
  }
  return prismaCode(error) === PRISMA_WRITE_CONFLICT ? SERIALIZATION_FAILURE : undefined;
}

/** The error and its inner errors, from the outside in. */
function* innerErrors(error: unknown): Iterable<object> {
  const found = new Set<object>();
  const add = (candidate: unknown): void => {
    if (typeof candidate === 'object' && candidate !== null) found.add(candidate);
  };
  add(error);
  for (const at of found) {
    yield at;
    if (found.size >= MAX_ERRORS) continue;
    for (const name of INNER_ERRORS) add((at as Record<string, unknown>)[name]);
  }
}

function answerOf(code: unknown): string | number | undefined {
  if (typeof code !== 'string') return undefined;
  if (MYSQL_NUMBER.test(code)) return Number(code);
  return SQLSTATE.test(code) && !PRISMA_CODE.test(code) ? code : undefined;
}

const SERIALIZATION_FAILURE = '40001';
/** The code of Prisma's engine without driver adapters for a serialization failure or deadlock. */
const PRISMA_WRITE_CONFLICT = 'P2034';
/** The code with which Prisma refuses everything, including COMMIT, in a transaction that it has ended. */
const PRISMA_TRANSACTION_ENDED = 'P2028';

function prismaCode(error: unknown): unknown {
  return typeof error === 'object' && error !== null ? (error as SqlError).code : undefined;
}

/**
 * SQLSTATEs of a server that went away or failed while committing; 40003 means that the outcome is unknown. With any
 * other, the transaction was rolled back: PostgreSQL does not refuse a COMMIT after it was written.
 */
const DOUBTFUL_STATES = /^(08|53|57P|58|F0|XX|25P04|40003)/;
const NOT_UNDERSTOOD = 1064;
/**
 * MySQL: changed since the snapshot, duplicate, not understood, lock wait time-out, deadlock, read-only since then (the
 * server has rolled back), foreign keys, refused by the group.
 */
const REFUSED_NUMBERS = [1020, 1062, NOT_UNDERSTOOD, 1205, 1213, 1290, 1451, 1452, 3101];

/** A COMMIT alone: an error of a text with several statements may belong to another one. */
const COMMIT = /^\s*COMMIT\b[^;]*;?\s*$/i;
const SEVERAL = /;\s*\S/;

/** Hooks of the application run around the COMMIT, and errors of their statements replace its error. */
function isOfAnotherStatement(error: unknown): boolean {
  return statementsOf(error).some((sql) => !COMMIT.test(sql));
}

/** The texts of the failed statements, from the errors that contain them. */
function statementsOf(error: unknown): readonly string[] {
  return [...innerErrors(error)]
    .map((inner) => inner as { query?: unknown; sql?: unknown })
    .map(({ query, sql = query }) => sql) // TypeORM and postgres.js; Sequelize, mysql2
    .filter((sql) => typeof sql === 'string');
}

/**
 * Whether MySQL or MariaDB could not parse this statement, so that it had no effect. In a text of several statements,
 * the ones before it were executed.
 */
export function isNotUnderstood(error: unknown, sql: string): boolean {
  return (
    sqlErrorCode(error) === NOT_UNDERSTOOD &&
    !SEVERAL.test(sql) &&
    statementsOf(error).every((failed) => failed === sql)
  );
}

/** Whether the database itself reported that it did not commit. After any other error, it may have committed. */
export function isRefusedCommit(error: unknown): boolean {
  if (isOfAnotherStatement(error)) return false;
  const code = sqlErrorCode(error);
  if (code === undefined) return prismaCode(error) === PRISMA_TRANSACTION_ENDED;
  return typeof code === 'number' ? REFUSED_NUMBERS.includes(code) : !DOUBTFUL_STATES.test(code);
}

/** Whether an ORM has wrapped this cause in the error of a statement, as Drizzle does. */
export function isOfStatement(error: unknown, cause: Error | undefined): boolean {
  const made = (error ?? {}) as { readonly query?: unknown; readonly cause?: unknown };
  return cause !== undefined && made.cause === cause && typeof made.query === 'string';
}

/** Whether the error is an answer of the database, after which the connection is usable. */
export function isAnswered(error: unknown): boolean {
  const code = sqlErrorCode(error);
  return typeof code === 'number' || (code !== undefined && !DOUBTFUL_STATES.test(code));
}

/** Whether PostgreSQL refused a statement because its transaction had already failed and can only be rolled back. */
export function isOfFailedTransaction(error: unknown): boolean {
  return sqlErrorCode(error) === '25P02';
}

/** SQLSTATE of PostgreSQL, error number of MySQL. */
const MISSING_TABLE: readonly unknown[] = ['42P01', 1146];

export function isMissingTable(error: unknown): boolean {
  return MISSING_TABLE.includes(sqlErrorCode(error));
}
