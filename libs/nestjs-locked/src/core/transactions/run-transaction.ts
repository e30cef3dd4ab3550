import { ambientCoordinator, type EnterTransaction } from './ambient-coordinator.js';
import { commitProgress } from './commit-watch.js';
import type { TransactionDescription } from './transaction-description.js';

/** Runs a transaction that is opened with a callback, as `AmbientCoordinator.run` does. */
export async function runTransaction<R>(
  description: TransactionDescription,
  open: (enter: EnterTransaction<R>) => Promise<R>,
): Promise<R> {
  return ambientCoordinator().run({ ...description, commitProgress }, open);
}
