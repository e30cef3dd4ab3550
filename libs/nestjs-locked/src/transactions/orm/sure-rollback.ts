import { atMost } from '../../core/time/at-most.js';
import { systemClock } from '../../core/time/clock.js';
import { closeConnectionOf } from './broken-connection.js';

/** How long a ROLLBACK may wait behind unanswered statements, in drivers whose own time-out starts later. */
const LIMIT_MS = 5_000;

/** The part of TypeORM's query runner that shows whether a rollback was done. */
export interface RollsBack {
  isTransactionActive: boolean;
  readonly isReleased?: boolean;
  /** Above one inside a savepoint. */
  transactionDepth?: number;
}

/** The target of a rollback: the innermost savepoint, if any, or the transaction with all its savepoints. */
export type RolledBack = 'innermost' | 'whole';

/** The number of answered ROLLBACKs on each query runner whose statements are seen. */
const rollbacks = new WeakMap<object, number>();

export function noteRollback(runner: object): void {
  rollbacks.set(runner, (rollbacks.get(runner) ?? 0) + 1);
}

/**
 * Rolls back, and ensures that the transaction really ends. Otherwise the connection would return to its pool with the
 * transaction open, and the next transaction on it would commit both. TypeORM does not send the rollback if a
 * subscriber throws before it, and rolls back only the innermost nested transaction if one is open.
 *
 * @param rollback TypeORM's own
 * @param query sends a statement that no guard refuses
 * @throws the error of `rollback`, after the transaction has ended all the same
 */
export async function rollBackForSure(
  runner: RollsBack,
  what: RolledBack,
  rollback: () => Promise<void>,
  query: (sql: string) => Promise<unknown>,
): Promise<void> {
  const depth = runner.transactionDepth ?? 1;
  const before = rollbacks.get(runner);
  // The outer transaction of a savepoint continues, or is rolled back next.
  const goesOn = what === 'innermost' && (depth > 1 || isForgottenBy(runner));
  if (what === 'whole' && depth > 1) runner.transactionDepth = 1;
  try {
    await rollback();
  } catch (error) {
    if (!goesOn) await endForSure(runner, query, wasSent(error));
    throw error;
  }
  // A savepoint was opened meanwhile. A transaction open after a ROLLBACK is the next one, of a hook.
  if (what === 'whole' && rollbacks.get(runner) === before) await endForSure(runner, query);
}

/**
 * Whether TypeORM treats an open transaction as ended, because a hook has failed before a savepoint in it. TypeORM then
 * sends neither COMMIT nor ROLLBACK.
 */
export function isForgottenBy(runner: object): boolean {
  const { isTransactionActive, transactionDepth = 0 } = runner as RollsBack;
  return !isTransactionActive && transactionDepth > 0;
}

/**
 * Sends a separate ROLLBACK if a transaction is open, and closes the connection if that fails.
 *
 * @param query sends a statement that no guard refuses
 * @param wasTried whether TypeORM has sent a ROLLBACK that has failed
 */
export async function endForSure(
  runner: RollsBack,
  query: (sql: string) => Promise<unknown>,
  wasTried = false,
): Promise<void> {
  const isOpen = runner.isTransactionActive || isForgottenBy(runner);
  if (!isOpen || runner.isReleased === true) return; // its connection may have another user
  if (!wasTried && (await isRolledBack(query('ROLLBACK')))) {
    runner.isTransactionActive = false;
    runner.transactionDepth = 0;
  } else {
    await closeConnectionOf({ queryRunner: runner }); // its state is unknown
  }
}

/**
 * Sends the ROLLBACK that the runner's code has omitted, and releases its connection, closed if the ROLLBACK is not
 * answered in time.
 *
 * @param query sends a statement that no guard refuses
 * @param release TypeORM's own
 */
export async function rollBackAndRelease(
  runner: object,
  query: (sql: string) => Promise<unknown>,
  release: () => Promise<void>,
): Promise<void> {
  const released = runner as { isReleased: boolean };
  const rolledBack = isRolledBack(query('ROLLBACK'));
  released.isReleased = true; // TypeORM refuses other statements meanwhile, as after `release()`
  const isDone = await rolledBack;
  released.isReleased = false;
  if (!isDone) await closeConnectionOf({ queryRunner: runner });
  await release();
}

/** Merges concurrent releases of the same query runner: later callers wait for the first. */
export function oneAtATime(release: () => Promise<void>): () => Promise<void> {
  let releasing: Promise<void> | undefined;
  return () =>
    (releasing ??= release().finally(() => {
      releasing = undefined;
    }));
}

/** TypeORM's errors contain the failed statement. */
function wasSent(error: unknown): boolean {
  return (error as { query?: unknown } | undefined)?.query === 'ROLLBACK';
}

/** Whether our ROLLBACK was answered in time and not refused. */
export async function isRolledBack(rollback: unknown): Promise<boolean> {
  const isDone = Promise.resolve(rollback).then(
    () => true,
    () => false,
  );
  return (await atMost(systemClock, LIMIT_MS, isDone)) === true;
}
