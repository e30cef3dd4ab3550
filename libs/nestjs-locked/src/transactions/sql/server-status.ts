import type { TransactionStatus } from './database-session.js';

/** SERVER_STATUS_IN_TRANS of the protocol of MySQL. */
const IN_TRANSACTION = 1;

/**
 * The transaction status that MySQL and MariaDB report with the answer to a statement.
 *
 * @param answer as returned by a driver or an ORM
 * @returns undefined if it is missing: drivers do not expose it if there are rows
 */
export function statusIn(answer: unknown): Exclude<TransactionStatus, 'failed'> | undefined {
  if (Array.isArray(answer)) {
    // The last one counts for several statements or a procedure; with mysql2, the fields follow.
    return answer.map(statusIn).findLast((status) => status !== undefined);
  }
  const { affectedRows, serverStatus, raw } = (answer ?? {}) as MaybeHeader;
  if (raw !== undefined && raw !== null) return statusIn(raw);
  if (typeof affectedRows !== 'number' || typeof serverStatus !== 'number') return undefined;
  return (serverStatus & IN_TRANSACTION) === 0 ? 'none' : 'open';
}

interface MaybeHeader {
  readonly affectedRows?: unknown;
  readonly serverStatus?: unknown;
  /** TypeORM. */
  readonly raw?: unknown;
}
