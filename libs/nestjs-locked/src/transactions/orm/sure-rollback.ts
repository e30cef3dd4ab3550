import { systemClock } from '../../core/time/clock.js';
import { closeConnectionOf } from './broken-connection.js';

/** How long a ROLLBACK may wait behind statements that are not answered, in drivers whose own time-out begins later. */
const LIMIT_MS = 5_000;

/** The part of TypeORM's query runner that tells whether a rollback was done. */
export interface RollsBack {
  isTransactionActive: boolean;
  /** More than one: in a savepoint. */
  transactionDepth?: number;
}

/**
 * A subscriber that throws before the rollback keeps TypeORM from sending it. The connection would go back to its pool
 * with the transaction still open, and the next transaction on it would commit both.
 *
 * @param rollback TypeORM's own
 * @param query sends a statement, past all guards
 * @throws what `rollback` has thrown, once the transaction has ended all the same
 */
export async function rollBackForSure(
  runner: RollsBack,
  rollback: () => Promise<void>,
  query: (sql: string) => Promise<unknown>,
): Promise<void> {
  try {
    await rollback();
  } catch (error) {
    const isSavepoint = (runner.transactionDepth ?? 1) > 1; // the transaction around it is rolled back next
    if (runner.isTransactionActive && !isSavepoint) {
      if (!wasSent(error) && (await isAnswered(query('ROLLBACK')))) {
        runner.isTransactionActive = false;
        runner.transactionDepth = 0;
      } else {
        await closeConnectionOf({ queryRunner: runner }); // in which state it is, nobody knows
      }
    }
    throw error;
  }
}

/** TypeORM's errors say which statement has failed. */
function wasSent(error: unknown): boolean {
  return (error as { query?: unknown } | undefined)?.query === 'ROLLBACK';
}

function isAnswered(rollback: Promise<unknown>): Promise<boolean> {
  return new Promise((resolve) => {
    const cancel = systemClock.after(LIMIT_MS, () => resolve(false));
    const settle = (isDone: boolean): void => {
      cancel();
      resolve(isDone);
    };
    rollback.then(
      () => settle(true),
      () => settle(false),
    );
  });
}
