import type { TransactionScope } from '../scope/transaction-scope.js';

/** TypeORM's query runner. */
interface MaybeActive {
  readonly isTransactionActive?: unknown;
}

const leftOpen = new WeakMap<MaybeActive, TransactionScope>();

/**
 * Called when the code that opened the transaction has committed it. If the runner is still in the transaction, TypeORM
 * has ended a nested one instead: the next transaction would be a savepoint, and its commit none.
 */
export function noteCommitted(runner: MaybeActive, scope: TransactionScope): void {
  const isNext = scope.commit.progress === 'answered'; // a hook after its COMMIT has begun it
  if (runner.isTransactionActive === true && !isNext) leftOpen.set(runner, scope);
}

/** The scope of a transaction left open in this way on the query runner. */
export function leftOpenOn(runner: MaybeActive): TransactionScope | undefined {
  if (runner.isTransactionActive !== true) leftOpen.delete(runner);
  return leftOpen.get(runner);
}
