import type { GuardingHold } from './guarding-hold.js';
import type { TransactionScope } from './transaction-scope.js';

/**
 * A second transaction inside the first would wait for the row that the first one has claimed, and the first one waits
 * for it to end. It is refused before it asks for a connection: the last one of the pool may be that of the first.
 *
 * @param outer the innermost transaction around it
 * @param holds what it would claim
 * @throws LockInTransactionError
 */
export function assertNotClaimedAround(
  outer: TransactionScope | undefined,
  connection: string,
  holds: readonly GuardingHold[],
): void {
  for (let scope = outer; scope !== undefined; scope = scope.outer) {
    if (!scope.isOpen || scope.connection !== connection) continue;
    for (const { locks, hold } of holds) {
      if (!scope.hasClaimed(locks, hold.key)) continue;
      throw scope.refusal('own-claim', { callSite: 'A second transaction', keys: [hold.key] });
    }
  }
}
