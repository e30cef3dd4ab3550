import { closeConnectionOf } from './broken-connection.js';

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
      await query('ROLLBACK').then(
        () => {
          runner.isTransactionActive = false;
          runner.transactionDepth = 0;
        },
        () => closeConnectionOf({ queryRunner: runner }), // in which state it is, nobody knows
      );
    }
    throw error;
  }
}
