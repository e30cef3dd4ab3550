interface MaybeEntityManager {
  readonly queryRunner?: { readonly transactionDepth?: unknown };
}

/** The number of savepoints being opened, by query runner; TypeORM counts them only when they are open. */
const opening = new WeakMap<object, number>();

/** @param by the change of the number */
export function noteOpening(runner: object, by: 1 | -1): void {
  opening.set(runner, (opening.get(runner) ?? 0) + by);
}

/** The part of TypeORM's query runner that begins transactions. */
interface Starts {
  startTransaction: (...options: never[]) => Promise<void>;
}

/** Reports each transaction that begins on the query runner, except the first and nested ones. */
export function watchLaterStarts(queryRunner: Starts, began: () => void): void {
  const { startTransaction } = queryRunner;
  let isFirst = true;
  queryRunner.startTransaction = (...options) => {
    const { transactionDepth } = queryRunner as { readonly transactionDepth?: unknown };
    if (!isFirst && transactionDepth === 0) began();
    isFirst = false;
    return startTransaction.apply(queryRunner, options);
  };
}

/** @param tx the transaction object @returns the savepoint depth according to its ORM; 0 if unknown */
export function knownDepth(tx: object): number {
  const { queryRunner } = tx as MaybeEntityManager;
  const depth = queryRunner?.transactionDepth;
  if (queryRunner === undefined || typeof depth !== 'number') return 0;
  return Math.max(0, depth - 1) + (opening.get(queryRunner) ?? 0);
}

/** A query runner of TypeORM. */
interface QueryRunner {
  readonly isTransactionActive: boolean;
}

/** The number of open transactions, including nested ones. */
export function depthOf(runner: QueryRunner): number {
  return (runner as { readonly transactionDepth?: number }).transactionDepth ?? 0;
}

/** Whether TypeORM would end a savepoint. */
export function isInSavepoint(runner: QueryRunner): boolean {
  return depthOf(runner) > 1;
}

/** Whether TypeORM would end the transaction itself. */
export function isOutermostOn(runner: QueryRunner): boolean {
  return runner.isTransactionActive && depthOf(runner) === 1;
}

/** Whether TypeORM knows that no transaction is open, as in hooks after the end. */
export function hasEndedOn(runner: QueryRunner): boolean {
  return (runner as { readonly transactionDepth?: number }).transactionDepth === 0;
}

/** Whether a transaction is open; after a failed start, TypeORM still reports an active one. */
export function isOpenOn(runner: QueryRunner): boolean {
  return runner.isTransactionActive && !hasEndedOn(runner);
}

/** Whether TypeORM has already ended the new transaction. For some drivers, it does not expose the depth. */
export function isGoneFrom(runner: QueryRunner): boolean {
  return !runner.isTransactionActive && hasEndedOn(runner);
}

/** Whether the runner has a pooled connection: `connect()` was called, or a statement was sent. */
export function isConnectedRunner(runner: object | undefined): boolean {
  return (
    (runner as { readonly databaseConnection?: unknown } | undefined)?.databaseConnection !==
    undefined
  );
}
