/** How a transaction ended; unknown = it failed after COMMIT was sent, without an answer from the database. */
export type TransactionOutcome = 'committed' | 'rolled-back' | 'unknown';

/**
 * What becomes of a transaction whose connection is given back while it is being committed, with its hooks.
 *
 * @param progress of its COMMIT; undefined = nobody knows
 */
export function outcomeAt(
  progress: 'not-sent' | 'sent' | 'answered' | undefined,
): TransactionOutcome {
  if (progress === 'not-sent') return 'rolled-back';
  return progress === 'answered' ? 'committed' : 'unknown';
}
