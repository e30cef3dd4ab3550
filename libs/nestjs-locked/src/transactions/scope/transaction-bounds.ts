import type { TransactionTimeouts } from '../../core/transaction.options.js';
import { LONGEST_MS, type TransactionBounds } from '../sql/database-session.js';

/** Whenever a healthy holder is paused, it has at least this share of its lease left: it renews after every third. */
export const HEALTHY_SHARE = 2 / 3;

/** What is kept free for the way to the database and for its clock: a tenth of what is left, and 50 ms at least. */
function marginMs(remainingMs: number): number {
  return Math.max(50, remainingMs / 10);
}

/**
 * The limits that the database gets for the transaction, so that it ends a paused holder before the lease does: one
 * statement and one pause after it fit into what the lease has left at any time.
 *
 * @param remainingMs what the lease has left now
 * @param holdLeftMs what is left of `maxHoldMs`
 */
export function transactionBounds(
  given: TransactionTimeouts,
  {
    remainingMs,
    leaseMs,
    holdLeftMs,
  }: { remainingMs: number; leaseMs: number; holdLeftMs: number },
): TransactionBounds {
  const certainMs = Math.min(remainingMs, leaseMs * HEALTHY_SHARE);
  const budgetMs = Math.max(2, certainMs - marginMs(certainMs));
  const statementMs = given.statementMs ?? Math.round((budgetMs * 5) / 9);
  const totalMs = given.totalMs ?? (holdLeftMs === Infinity ? undefined : Math.ceil(holdLeftMs));
  const idleMs = given.idleMs ?? Math.round((budgetMs * 4) / 9);
  return {
    idleMs: Math.min(idleMs, LONGEST_MS),
    statementMs: Math.min(statementMs, LONGEST_MS),
    lockMs: Math.min(given.lockMs ?? statementMs, LONGEST_MS),
    ...(totalMs === undefined ? {} : { totalMs: Math.min(totalMs, LONGEST_MS) }),
  };
}

/** How long the database may wait for the COMMIT. */
export function commitIdleMs(given: TransactionTimeouts, remainingMs: number): number {
  const idleMs = given.idleMs ?? Math.max(1, Math.floor(remainingMs - marginMs(remainingMs)));
  return Math.min(idleMs, LONGEST_MS);
}
