import { unreachable } from '../../core/runtime/unreachable.js';
import { isRefusedCommit } from '../sql/sql-error.js';
import type { TransactionOutcome } from './transaction-outcome.js';

/**
 * How far a COMMIT got. ORMs run hooks of the application before and after it: their errors look like those of the
 * COMMIT itself.
 */
export type CommitProgress = 'not-sent' | 'sent' | 'answered';

/** What became of a transaction that failed after its body. @param progress undefined = nobody knows */
export function outcomeOfFailedCommit(
  error: unknown,
  progress: CommitProgress | undefined,
): TransactionOutcome {
  switch (progress) {
    case 'not-sent':
      return 'rolled-back';
    case 'answered':
      return 'committed';
    case 'sent':
    case undefined:
      return isRefusedCommit(error) ? 'rolled-back' : 'unknown';
    default:
      return unreachable(progress);
  }
}
