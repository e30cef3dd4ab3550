import type { TransactionScope } from '../scope/transaction-scope.js';

/** TypeORM's query runner. */
interface MaybeActive {
  readonly isTransactionActive?: unknown;
}

const leftOpen = new WeakMap<MaybeActive, TransactionScope>();

/**
 * The code that has opened the transaction of this query runner has committed it. If it is open all the same, then
 * because a nested one was open: TypeORM has ended that one, the next transaction would be a savepoint, and its commit
 * none.
 */
export function noteCommitted(runner: MaybeActive, scope: TransactionScope): void {
  const isNext = scope.commit.progress === 'answered'; // a hook after its COMMIT has begun it
  if (runner.isTransactionActive === true && !isNext) leftOpen.set(runner, scope);
}

/** The scope of such a transaction, if it is still open on this query runner. */
export function leftOpenOn(runner: MaybeActive): TransactionScope | undefined {
  if (runner.isTransactionActive !== true) leftOpen.delete(runner);
  return leftOpen.get(runner);
}
