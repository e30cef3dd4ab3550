/** How a transaction ended; unknown = it failed after COMMIT was sent, without an answer from the database. */
export type TransactionOutcome = 'committed' | 'rolled-back' | 'unknown';

/**
 * The outcome of a transaction whose connection is released during its COMMIT and hooks.
 *
 * @param progress the progress of its COMMIT; undefined = unknown
 */
export function outcomeAt(
  progress: 'not-sent' | 'sent' | 'answered' | undefined,
): TransactionOutcome {
  if (progress === 'not-sent') return 'rolled-back';
  return progress === 'answered' ? 'committed' : 'unknown';
}
