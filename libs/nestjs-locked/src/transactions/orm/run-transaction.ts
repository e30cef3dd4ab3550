import { ambientCoordinator, type EnterTransaction } from '../scope/ambient-coordinator.js';
import { assertStillHere, holdsHere } from '../scope/guarding-hold.js';
import type { TransactionDescription } from '../scope/transaction-description.js';
import { speaksFirst } from '../scope/transaction-guard.js';
import { ArmedTimeouts } from '../sql/armed-timeouts.js';
import type { DatabaseSession } from '../sql/database-session.js';
import { BegunSession } from './begun-session.js';
import { closeConnectionOf } from './broken-connection.js';
import { DelayedBegin, inBodyOf, opening } from './delayed-begin.js';
import { FirstStatementSession } from './first-statement-session.js';
import { OwnClient } from './own-client.js';
import type { PgClient } from './pg-client.js';
import { seesCommit } from './seen-commits.js';

export interface TransactionToRun extends Omit<TransactionDescription, 'session'> {
  /** @param client returns the client of the transaction if it was seen, as for `stateOfClient` */
  readonly session: (tx: object, client: () => PgClient | undefined) => DatabaseSession | undefined;
  /** Whether its BEGIN may wait for the claim: the result of `delayBeginsOf`. @default false */
  readonly delaysBegin?: boolean;
  /** Whether its driver survives a connection closed by the database. @default true */
  readonly survivesDisconnect?: boolean;
}

/**
 * Runs a transaction with a callback, like `AmbientCoordinator.run`. If it fails because of a time-out armed for its
 * locks, the error says so.
 */
export async function runTransaction<R>(
  { survivesDisconnect = true, delaysBegin = false, session, ...description }: TransactionToRun,
  open: (enter: EnterTransaction<R>) => Promise<R>,
): Promise<R> {
  const askedUnder = holdsHere();
  const timeouts = new ArmedTimeouts();
  let begin: DelayedBegin | undefined;
  let own: OwnClient | undefined;
  const close = (tx: object, watch = own?.watch): Promise<void> =>
    watch === undefined ? closeConnectionOf(tx) : watch.close();
  const watched: TransactionDescription = {
    ...description,
    session: (tx) => {
      const [present, watch, first] = [begin, own?.watch, own?.beginning];
      const client = (): PgClient | undefined => watch?.client;
      const made = session(tx, client);
      const spoken = made && present ? new FirstStatementSession(made, present) : made;
      const connection = description.connection ?? 'default';
      const begun =
        spoken && first
          ? new BegunSession(spoken, {
              connection,
              begin: first,
              client,
              close: () => close(tx, watch),
            })
          : spoken;
      return timeouts.watch(begun, survivesDisconnect);
    },
    seesCommit,
    tellsRollback: () => own?.watch !== undefined,
    close: (tx) => void close(tx).catch(() => {}), // it is already closed
  };
  /** One run. */
  const opened = async (enter: EnterTransaction<R>): Promise<R> => {
    const delays =
      delaysBegin && speaksFirst(description.connection ?? 'default', survivesDisconnect);
    const present = (begin = delays ? new DelayedBegin() : undefined);
    let isOpen = false;
    const client = (own = new OwnClient(
      present,
      () => {
        if (!isOpen) ambientCoordinator().assertMayConnect(description.connection);
      },
      survivesDisconnect,
    ));
    try {
      return await opening(client, () =>
        open(async (tx, body) => {
          isOpen = true;
          client.opened(tx);
          present?.opened();
          try {
            assertStillHere(askedUnder);
            return await enter(tx, () => {
              client.beginning?.begun(); // at the latest with the claim
              return inBodyOf(client, body);
            });
          } catch (error) {
            client.failed();
            throw error;
          }
        }),
      );
    } finally {
      present?.over();
      client.stop();
    }
  };
  try {
    return await ambientCoordinator().run<R>(watched, opened);
  } catch (error) {
    timeouts.explain(error);
    throw error;
  }
}
