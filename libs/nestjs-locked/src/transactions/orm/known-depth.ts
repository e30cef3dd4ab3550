interface MaybeEntityManager {
  readonly queryRunner?: { readonly transactionDepth?: unknown };
}

/** How many savepoints are being opened, by query runner: TypeORM counts them only when they are open. */
const opening = new WeakMap<object, number>();

/** @param by one more, or one less */
export function noteOpening(runner: object, by: 1 | -1): void {
  opening.set(runner, (opening.get(runner) ?? 0) + by);
}

/** The part of TypeORM's query runner that begins transactions. */
interface Starts {
  startTransaction: (...options: never[]) => Promise<void>;
}

/** Tells of each transaction that begins on the query runner, but the first one and those that are nested. */
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

/**
 * @param tx what stands for a transaction @returns how deep in savepoints its ORM says that it is; 0 if it does not say
 */
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

/** How many transactions are open on it, nested ones included. */
export function depthOf(runner: QueryRunner): number {
  return (runner as { readonly transactionDepth?: number }).transactionDepth ?? 0;
}

/** Whether TypeORM would end a savepoint on it. */
export function isInSavepoint(runner: QueryRunner): boolean {
  return depthOf(runner) > 1;
}

/** Whether TypeORM would end the transaction itself on it. */
export function isOutermostOn(runner: QueryRunner): boolean {
  return runner.isTransactionActive && depthOf(runner) === 1;
}

/** Whether TypeORM knows that none is open on it: hooks after the end run then. */
export function hasEndedOn(runner: QueryRunner): boolean {
  return (runner as { readonly transactionDepth?: number }).transactionDepth === 0;
}

/** Whether a transaction is open on it: where one could not be started, TypeORM says all the same that it is active. */
export function isOpenOn(runner: QueryRunner): boolean {
  return runner.isTransactionActive && !hasEndedOn(runner);
}

/** Whether TypeORM has ended what has just begun on it. Of some drivers, it does not say how deep they are. */
export function isGoneFrom(runner: QueryRunner): boolean {
  return !runner.isTransactionActive && hasEndedOn(runner);
}

/** Whether it has a connection of its pool: `connect()` was called, or a statement was sent. */
export function isConnectedRunner(runner: object | undefined): boolean {
  return (
    (runner as { readonly databaseConnection?: unknown } | undefined)?.databaseConnection !==
    undefined
  );
}
