import type { TransactionalLocks } from '../../core/calls/open-transaction.js';
import type { Hold } from '../../core/queue/hold.js';
import { isUnfenced } from '../fence/unfenced.js';
import { fenceOn, type GuardingHold, holdsHere } from './guarding-hold.js';
import type { TransactionOutcome } from './transaction-outcome.js';
import type { TransactionScope } from './transaction-scope.js';

/** A statement that writes, possibly after comments or a WITH. Functions that write are not recognized. */
const WRITES =
  /^(?:\s|--[^\n]*\n|\/\*[\s\S]*?\*\/)*(?:WITH\b[\s\S]*?\b)?(?:INSERT|UPDATE|DELETE|MERGE|REPLACE|TRUNCATE|COPY|CALL)\b/i;

/**
 * Reports, once for each service and connection, work under a lock that the fence of the service cannot guard. Whether
 * the work needs it is unknown, so it is not refused. Code without a lock is never reported.
 */
export class UnfencedNotices {
  readonly #told = new WeakMap<TransactionalLocks, Set<string>>();
  /** The holds under which a transaction was opened, or a statement that may write was sent outside one. */
  readonly #used = new WeakSet<Hold>();
  /** When the last committed transaction without a lock began, by connection. */
  readonly #lockFree = new Map<string, number>();

  /** Called when a statement is sent outside any transaction. @param sql undefined if unknown; it may be a read */
  statement(connection: string, sql: string | undefined): void {
    const holds = holdsHere();
    // Reads do not count as use, because their results may be written in a transaction that has lost the context.
    if (holds.length === 0 || isRead(sql)) return;
    for (const { locks, hold } of holds) {
      this.#used.add(hold);
      const fence = fenceOn(locks, connection);
      if (fence === undefined || hold.isPermit || isUnfenced()) continue;
      // The fence table itself is pruned outside transactions.
      if (sql?.includes(fence.table) === true) continue;
      this.#tell(locks, 'unfenced-statement', hold, connection);
    }
  }

  /** Called when a transaction is opened under these holds. */
  opened(holds: readonly GuardingHold[]): void {
    for (const { hold } of holds) this.#used.add(hold);
  }

  ended({ connection, isLocked, startedAt }: TransactionScope, outcome: TransactionOutcome): void {
    if (isLocked || outcome !== 'committed') return;
    const latest = this.#lockFree.get(connection) ?? -Infinity;
    this.#lockFree.set(connection, Math.max(startedAt, latest));
  }

  /**
   * Called when the work under a lock has ended or failed. If it opened no transaction, a transaction without a lock
   * may be its own: the async context is lost, unnoticed, where work is handed to code started elsewhere.
   */
  workEnded(locks: TransactionalLocks, holds: readonly Hold[]): void {
    const [first] = holds;
    if (
      first === undefined ||
      first.isPermit ||
      locks.transactionOptions.fence === undefined ||
      isUnfenced()
    )
      return;
    if (holds.some((hold) => this.#used.has(hold))) return;
    for (const [connection, since] of this.#lockFree)
      if (since >= first.since && fenceOn(locks, connection) !== undefined)
        this.#tell(locks, 'unfenced-lock', first, connection);
  }

  #tell(
    locks: TransactionalLocks,
    type: 'unfenced-statement' | 'unfenced-lock',
    { key, label, template }: Hold,
    connection: string,
  ): void {
    const told = this.#told.get(locks) ?? new Set();
    const what = `${type} ${connection}`;
    if (told.has(what)) return;
    this.#told.set(locks, told.add(what));
    locks.report({ type, key, label, template, connection });
  }
}

/** @param sql undefined if unknown */
function isRead(sql: string | undefined): boolean {
  return sql !== undefined && !WRITES.test(sql);
}
