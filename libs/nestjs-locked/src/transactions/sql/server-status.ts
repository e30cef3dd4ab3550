import type { TransactionStatus } from './database-session.js';

/** SERVER_STATUS_IN_TRANS of the protocol of MySQL. */
const IN_TRANSACTION = 1;

/**
 * What MySQL and MariaDB say of the transaction with their answer to a statement.
 *
 * @param answer as a driver, or an ORM, hands it out
 * @returns undefined if it does not tell: drivers keep it to themselves if there are rows
 */
export function statusIn(answer: unknown): Exclude<TransactionStatus, 'failed'> | undefined {
  if (Array.isArray(answer)) {
    // Of several statements, or of a procedure, the last one counts; with mysql2, the fields follow.
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
