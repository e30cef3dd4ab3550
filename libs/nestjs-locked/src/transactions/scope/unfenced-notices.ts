import type { TransactionalLocks } from '../../core/calls/open-transaction.js';
import type { Hold } from '../../core/queue/hold.js';
import { isUnfenced } from '../fence/unfenced.js';
import { fenceOn, type GuardingHold, holdsHere } from './guarding-hold.js';
import type { TransactionOutcome } from './transaction-outcome.js';
import type { TransactionScope } from './transaction-scope.js';

/** A statement that writes, perhaps after comments, or at the end of a WITH. Functions may write, too: not seen. */
const WRITES =
  /^(?:\s|--[^\n]*\n|\/\*[\s\S]*?\*\/)*(?:WITH\b[\s\S]*?\b)?(?:INSERT|UPDATE|DELETE|MERGE|REPLACE|TRUNCATE|COPY|CALL)\b/i;

/**
 * Tells, once for each service and connection, of work under a lock that the fence of the service cannot guard. Whether
 * the work needs it is not known, so it is not refused. Code without a lock is never told of.
 */
export class UnfencedNotices {
  readonly #told = new WeakMap<TransactionalLocks, Set<string>>();
  /** The holds under which a transaction was opened, or a statement that may write was sent outside of one. */
  readonly #used = new WeakSet<Hold>();
  /** When the last transaction began that knew of no lock and was committed, by connection. */
  readonly #lockFree = new Map<string, number>();

  /** A statement is sent outside of every transaction. @param sql undefined if it is not known: it may be a read */
  statement(connection: string, sql: string | undefined): void {
    const holds = holdsHere();
    // What is read here may be written in a transaction that has lost the context.
    if (holds.length === 0 || isRead(sql)) return;
    for (const { locks, hold } of holds) {
      this.#used.add(hold);
      const fence = fenceOn(locks, connection);
      if (fence === undefined || isUnfenced()) continue;
      // The table itself is kept small outside of transactions.
      if (sql?.includes(fence.table) === true) continue;
      this.#tell(locks, 'unfenced-statement', hold.key, connection);
    }
  }

  /** A transaction is opened under these. */
  opened(holds: readonly GuardingHold[]): void {
    for (const { hold } of holds) this.#used.add(hold);
  }

  ended({ connection, isLocked, startedAt }: TransactionScope, outcome: TransactionOutcome): void {
    if (isLocked || outcome !== 'committed') return;
    const latest = this.#lockFree.get(connection) ?? -Infinity;
    this.#lockFree.set(connection, Math.max(startedAt, latest));
  }

  /**
   * The work under a lock has ended or failed. If it has opened no transaction, one that knew of no lock may be its
   * own: the async context is lost where work is handed to something that was started elsewhere, which nobody sees.
   */
  workEnded(locks: TransactionalLocks, holds: readonly Hold[]): void {
    const [first] = holds;
    if (first === undefined || locks.transactionOptions.fence === undefined || isUnfenced()) return;
    if (holds.some((hold) => this.#used.has(hold))) return;
    for (const [connection, since] of this.#lockFree)
      if (since >= first.since && fenceOn(locks, connection) !== undefined)
        this.#tell(locks, 'unfenced-lock', first.key, connection);
  }

  #tell(
    locks: TransactionalLocks,
    type: 'unfenced-statement' | 'unfenced-lock',
    key: string,
    connection: string,
  ): void {
    const told = this.#told.get(locks) ?? new Set();
    const what = `${type} ${connection}`;
    if (told.has(what)) return;
    this.#told.set(locks, told.add(what));
    locks.report({ type, key, connection });
  }
}

/** @param sql undefined if it is not known */
function isRead(sql: string | undefined): boolean {
  return sql !== undefined && !WRITES.test(sql);
}
