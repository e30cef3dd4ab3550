import { unreachable } from '../../core/runtime/unreachable.js';
import { isRefusedCommit } from '../sql/sql-error.js';
import type { TransactionOutcome } from './transaction-outcome.js';

/**
 * The progress of a COMMIT. Errors of application hooks that ORMs run before and after it look like those of the COMMIT
 * itself.
 */
export type CommitProgress = 'not-sent' | 'sent' | 'answered';

/** The outcome of a transaction that failed after its body. @param progress undefined = unknown */
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
