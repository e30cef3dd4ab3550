import { ambientCoordinator, type EnterTransaction } from '../scope/ambient-coordinator.js';
import { speaksFirst } from '../scope/guarding-hold.js';
import type { TransactionDescription } from '../scope/transaction-description.js';
import { ArmedTimeouts } from '../sql/armed-timeouts.js';
import type { DatabaseSession } from '../sql/database-session.js';
import { commitProgress } from './commit-watch.js';
import { DelayedBegin } from './delayed-begin.js';
import { FirstStatementSession } from './first-statement-session.js';
import type { PgClient } from './pg-client.js';

export interface TransactionToRun extends Omit<TransactionDescription, 'session'> {
  /** @param client gives the client of the transaction, where that has been seen, as `stateOfClient` takes it */
  readonly session: (tx: object, client: () => PgClient | undefined) => DatabaseSession | undefined;
  /** Whether its BEGIN may wait for the claim: what `delayBeginsOf` has answered. @default false */
  readonly delaysBegin?: boolean;
  /** Whether its driver survives it if the database ends its connection. @default true */
  readonly survivesDisconnect?: boolean;
}

/**
 * Runs a transaction that is opened with a callback, as `AmbientCoordinator.run` does. If it fails because of a
 * time-out that was armed for its locks, the error says so.
 */
export async function runTransaction<R>(
  { survivesDisconnect = true, delaysBegin = false, session, ...description }: TransactionToRun,
  open: (enter: EnterTransaction<R>) => Promise<R>,
): Promise<R> {
  const timeouts = new ArmedTimeouts();
  let begin: DelayedBegin | undefined;
  const watched: TransactionDescription = {
    ...description,
    session: (tx) => {
      const present = begin;
      const made = session(tx, () => present?.client);
      const spoken = made && present ? new FirstStatementSession(made, present) : made;
      return timeouts.watch(spoken, survivesDisconnect);
    },
    commitProgress,
  };
  try {
    return await ambientCoordinator().run<R>(watched, (enter) => {
      if (!delaysBegin || !speaksFirst(description.connection ?? 'default')) return open(enter);
      const present = (begin = new DelayedBegin());
      return present.opening(() =>
        open((tx, body) => {
          present.opened();
          return enter(tx, body);
        }),
      );
    });
  } catch (error) {
    timeouts.explain(error);
    throw error;
  }
}
