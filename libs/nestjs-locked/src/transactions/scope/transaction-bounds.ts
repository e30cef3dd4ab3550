import type { TransactionTimeouts } from '../../core/transaction.options.js';
import { LONGEST_MS, type TransactionBounds } from '../sql/database-session.js';

/** The least share of its lease that a healthy holder has left at any time, because it renews after every third. */
export const HEALTHY_SHARE = 2 / 3;

/** The margin for the round trip to the database and its clock: a tenth of the rest, at least 50 ms. */
function marginMs(remainingMs: number): number {
  return Math.max(50, remainingMs / 10);
}

/**
 * The limits with which the database ends the transaction of a paused holder before its lease ends: one statement and
 * one pause after it fit into the rest of the lease at any time.
 *
 * @param remainingMs the rest of the lease
 * @param holdLeftMs the rest of `maxHoldMs`
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
