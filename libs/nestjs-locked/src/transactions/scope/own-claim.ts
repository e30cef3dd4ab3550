import type { GuardingHold } from './guarding-hold.js';
import { HookContext } from './hook-context.js';
import type { TransactionScope } from './transaction-scope.js';

/**
 * Refuses a second transaction inside the first: it would wait for the row that the first one has claimed, while the
 * first one waits for it to end. Refused before it requests a connection, because the first one may have the last of
 * the pool.
 *
 * The same applies to hooks of the first one, up to its COMMIT or ROLLBACK.
 *
 * @param outer the innermost enclosing transaction
 * @param holds the holds it would claim
 * @throws LockInTransactionError
 */
export function assertNotClaimedAround(
  outer: TransactionScope | undefined,
  connection: string,
  holds: readonly GuardingHold[],
): void {
  const hooked = HookContext.scopesHere().filter(({ keepsClaims }) => keepsClaims);
  for (const scope of [...openFrom(outer), ...hooked]) {
    if (scope.connection !== connection) continue;
    for (const { locks, hold } of holds) {
      if (!scope.hasClaimed(locks, hold.key)) continue;
      throw scope.refusal('own-claim', { callSite: 'A second transaction', keys: [hold.key] });
    }
  }
}

function* openFrom(innermost: TransactionScope | undefined): Generator<TransactionScope> {
  for (let scope = innermost; scope !== undefined; scope = scope.outer) {
    if (scope.isOpen) yield scope;
  }
}
