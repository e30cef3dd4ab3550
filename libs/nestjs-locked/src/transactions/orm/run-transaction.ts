import { ambientCoordinator, type EnterTransaction } from '../scope/ambient-coordinator.js';
import type { TransactionDescription } from '../scope/transaction-description.js';
import { ArmedTimeouts } from '../sql/armed-timeouts.js';
import { commitProgress } from './commit-watch.js';

export interface TransactionToRun extends TransactionDescription {
  /** Whether its driver survives it if the database ends its connection. @default true */
  readonly survivesDisconnect?: boolean;
}

/**
 * Runs a transaction that is opened with a callback, as `AmbientCoordinator.run` does. If it fails because of a
 * time-out that was armed for its locks, the error says so.
 */
export async function runTransaction<R>(
  { survivesDisconnect = true, ...description }: TransactionToRun,
  open: (enter: EnterTransaction<R>) => Promise<R>,
): Promise<R> {
  const timeouts = new ArmedTimeouts();
  const watched: TransactionDescription = {
    ...description,
    session: (tx) => timeouts.watch(description.session(tx), survivesDisconnect),
    commitProgress,
  };
  try {
    return await ambientCoordinator().run(watched, open);
  } catch (error) {
    timeouts.explain(error);
    throw error;
  }
}
