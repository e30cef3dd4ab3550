/** How a transaction ended; unknown = it failed after COMMIT was sent, without an answer from the database. */
export type TransactionOutcome = 'committed' | 'rolled-back' | 'unknown';
