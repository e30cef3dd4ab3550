import { atMost } from '../../core/time/at-most.js';
import { systemClock } from '../../core/time/clock.js';
import { closeConnectionOf } from './broken-connection.js';

/** How long a ROLLBACK may wait behind statements that are not answered, in drivers whose own time-out begins later. */
const LIMIT_MS = 5_000;

/** The part of TypeORM's query runner that tells whether a rollback was done. */
export interface RollsBack {
  isTransactionActive: boolean;
  readonly isReleased?: boolean;
  /** More than one: in a savepoint. */
  transactionDepth?: number;
}

/** What is rolled back: the innermost savepoint, if there is one, or the transaction with all its savepoints. */
export type RolledBack = 'innermost' | 'whole';

/** How many ROLLBACKs were answered on a query runner, where its statements are seen. */
const rollbacks = new WeakMap<object, number>();

export function noteRollback(runner: object): void {
  rollbacks.set(runner, (rollbacks.get(runner) ?? 0) + 1);
}

/**
 * Rolls back, and makes sure that a transaction that has to be over is over. The connection would go back to its pool
 * with the transaction still open, and the next transaction on it would commit both. A subscriber that throws before
 * the rollback keeps TypeORM from sending it. While a nested transaction is open, TypeORM rolls back that one.
 *
 * @param rollback TypeORM's own
 * @param query sends a statement, past all guards
 * @throws what `rollback` has thrown, once the transaction has ended all the same
 */
export async function rollBackForSure(
  runner: RollsBack,
  what: RolledBack,
  rollback: () => Promise<void>,
  query: (sql: string) => Promise<unknown>,
): Promise<void> {
  const depth = runner.transactionDepth ?? 1;
  const before = rollbacks.get(runner);
  // The transaction around a savepoint continues, or is rolled back next.
  const goesOn = what === 'innermost' && (depth > 1 || isForgottenBy(runner));
  if (what === 'whole' && depth > 1) runner.transactionDepth = 1;
  try {
    await rollback();
  } catch (error) {
    if (!goesOn) await endForSure(runner, query, wasSent(error));
    throw error;
  }
  // A savepoint was opened meanwhile. What is open after a ROLLBACK is the next one, of a hook.
  if (what === 'whole' && rollbacks.get(runner) === before) await endForSure(runner, query);
}

/**
 * Whether TypeORM takes a transaction for ended that is open: a hook has failed before a savepoint in it. TypeORM sends
 * neither COMMIT nor ROLLBACK for it any more.
 */
export function isForgottenBy(runner: object): boolean {
  const { isTransactionActive, transactionDepth = 0 } = runner as RollsBack;
  return !isTransactionActive && transactionDepth > 0;
}

/**
 * Sends a ROLLBACK of its own if a transaction is open, and closes the connection if that fails.
 *
 * @param query sends a statement, past all guards
 * @param wasTried whether TypeORM has sent a ROLLBACK that has failed
 */
export async function endForSure(
  runner: RollsBack,
  query: (sql: string) => Promise<unknown>,
  wasTried = false,
): Promise<void> {
  const isOpen = runner.isTransactionActive || isForgottenBy(runner);
  if (!isOpen || runner.isReleased === true) return; // its connection has another user
  if (!wasTried && (await isRolledBack(query('ROLLBACK')))) {
    runner.isTransactionActive = false;
    runner.transactionDepth = 0;
  } else {
    await closeConnectionOf({ queryRunner: runner }); // in which state it is, nobody knows
  }
}

/**
 * Sends the ROLLBACK that the code of the runner has left out, and gives its connection back to the pool, closed if the
 * ROLLBACK is not answered in time.
 *
 * @param query sends a statement, past all guards
 * @param release TypeORM's own
 */
export async function rollBackAndRelease(
  runner: object,
  query: (sql: string) => Promise<unknown>,
  release: () => Promise<void>,
): Promise<void> {
  const released = runner as { isReleased: boolean };
  const rolledBack = isRolledBack(query('ROLLBACK'));
  released.isReleased = true; // TypeORM refuses what others send meanwhile, as it does from `release()` on
  const isDone = await rolledBack;
  released.isReleased = false;
  if (!isDone) await closeConnectionOf({ queryRunner: runner });
  await release();
}

/** Several may release the same query runner: who asks while it is being released waits for that. */
export function oneAtATime(release: () => Promise<void>): () => Promise<void> {
  let releasing: Promise<void> | undefined;
  return () =>
    (releasing ??= release().finally(() => {
      releasing = undefined;
    }));
}

/** TypeORM's errors say which statement has failed. */
function wasSent(error: unknown): boolean {
  return (error as { query?: unknown } | undefined)?.query === 'ROLLBACK';
}

/** Whether a ROLLBACK of ours was answered in time, and not refused. */
export async function isRolledBack(rollback: unknown): Promise<boolean> {
  const isDone = Promise.resolve(rollback).then(
    () => true,
    () => false,
  );
  return (await atMost(systemClock, LIMIT_MS, isDone)) === true;
}
