/** The parts of a driver's error that say what the database answered. */
interface SqlError {
  readonly code?: unknown;
  readonly errno?: unknown;
  readonly cause?: unknown;
  readonly driverError?: unknown;
}

/** SQLSTATE, or MySQL's error number; undefined if the error is none of the database's. ORMs wrap the driver's error. */
export function sqlErrorCode(error: unknown): string | number | undefined {
  for (let at = error, depth = 0; depth < 5 && typeof at === 'object' && at !== null; depth++) {
    const { code, errno, driverError, cause } = at as SqlError;
    if (typeof code === 'string' && /^[0-9A-Z]{5}$/.test(code)) return code;
    // A driver's own failures have negative numbers (errors of the operating system), or none.
    if (typeof errno === 'number' && errno > 0) return errno;
    at = driverError ?? cause;
  }
  return undefined;
}

/** SQLSTATE classes in which a COMMIT is refused: integrity, serialization, a trigger's own errors, aborted earlier. */
const REFUSED_CLASSES = ['22', '23', '25', '40', 'P0'];
/** Statement completion unknown. */
const UNKNOWN_STATE = '40003';
/** MySQL: duplicate, foreign key, lock wait time-out, deadlock. */
const REFUSED_NUMBERS = [1062, 1205, 1213, 1451, 1452];

/** Whether the database itself has answered the COMMIT: it was not done. Anything else may have been done after all. */
export function isRefusedCommit(error: unknown): boolean {
  const code = sqlErrorCode(error);
  if (typeof code === 'number') return REFUSED_NUMBERS.includes(code);
  if (code === undefined || code === UNKNOWN_STATE) return false;
  return REFUSED_CLASSES.includes(code.slice(0, 2));
}

/** SQLSTATE of PostgreSQL, error number of MySQL. */
const MISSING_TABLE: readonly unknown[] = ['42P01', 1146];

export function isMissingTable(error: unknown): boolean {
  return MISSING_TABLE.includes(sqlErrorCode(error));
}
