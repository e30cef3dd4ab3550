import type { TransactionalLocks } from '../../core/calls/open-transaction.js';
import { isUnfenced } from '../fence/unfenced.js';
import { fenceOn, holdsHere } from './guarding-hold.js';

/** A statement that writes, perhaps after comments, or at the end of a WITH. Functions may write, too: not seen. */
const WRITES =
  /^(?:\s|--[^\n]*\n|\/\*[\s\S]*?\*\/)*(?:WITH\b[\s\S]*?\b)?(?:INSERT|UPDATE|DELETE|MERGE|REPLACE|TRUNCATE|COPY|CALL)\b/i;

/**
 * Tells, once for each service and connection, of work under a lock that the fence of the service cannot guard. Whether
 * the work needs it is not known, so it is not refused. Code without a lock is never told of.
 */
export class UnfencedNotices {
  readonly #told = new WeakMap<TransactionalLocks, Set<string>>();

  /** A statement is sent outside of every transaction. @param sql undefined if it is not known: it may be a read */
  statement(connection: string, sql: string | undefined): void {
    for (const { locks, hold } of holdsHere()) {
      const fence = fenceOn(locks, connection);
      if (fence === undefined || isUnfenced()) continue;
      // The table itself is kept small outside of transactions.
      if (sql !== undefined && (!WRITES.test(sql) || sql.includes(fence.table))) continue;
      if (this.#isFirst(locks, connection)) {
        locks.report({ type: 'unfenced-statement', key: hold.key, connection });
      }
    }
  }

  #isFirst(locks: TransactionalLocks, connection: string): boolean {
    const told = this.#told.get(locks) ?? new Set();
    if (told.has(connection)) return false;
    this.#told.set(locks, told.add(connection));
    return true;
  }
}
