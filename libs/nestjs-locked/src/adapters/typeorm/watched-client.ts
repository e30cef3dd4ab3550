import type { QueryRunner } from 'typeorm';
import { EventEmitter } from 'node:events';
import { closeConnectionOf, isBroken } from '../../transactions/orm/broken-connection.js';
import { ClientWatch, isWatchable } from '../../transactions/orm/client-watch.js';
import { knownPgClient } from '../../transactions/orm/pg-client.js';
import { isRolledBack } from '../../transactions/orm/sure-rollback.js';
import type { TransactionScope } from '../../transactions/scope/transaction-scope.js';

/**
 * Watches the client of a transaction driven manually, until it has ended: only there can be seen that a COMMIT
 * was answered with ROLLBACK.
 */
export function watchClient(manager: object, begun: TransactionScope): void {
  const own = knownPgClient(manager);
  if (!isWatchable(own)) return;
  // A pool makes another one for the next user of the client, who may get it before the scope has ended.
  const pooled = own as { readonly release?: unknown };
  const ofThisUse = pooled.release;
  const client = new ClientWatch(own, () => pooled.release === ofThisUse);
  client.opened(manager);
  begun.atEnd(() => client.stop());
}

/**
 * Whether its connection is known to be gone. On PostgreSQL, TypeORM then gives back the query runner itself, past
 * `release()`; on MySQL, it leaves it to its code.
 */
export function hasDied(runner: QueryRunner): boolean {
  return runner.isReleased || isBroken(connectionOf(runner));
}

/**
 * The code of a query runner whose connection has died may neither roll back nor release, such as code that looks at
 * `isReleased` first, as is usual.
 *
 * @param died called until the transaction has ended
 */
export function whenConnectionDies(
  runner: QueryRunner,
  begun: TransactionScope,
  died: () => void,
): void {
  const connection = connectionOf(runner);
  // An error to which nobody listens is not ours to swallow.
  if (!(connection instanceof EventEmitter) || connection.listenerCount('error') === 0) return;
  // `fatal`: so mysql2 marks the errors that end its connection.
  const failed = ({ fatal }: { readonly fatal?: unknown }): void => {
    if (runner.isReleased || fatal === true) died();
  };
  if (runner.isReleased) died(); // while it began
  if (!begun.isOpen) return;
  connection.on('error', failed);
  begun.atEnd(() => connection.off('error', failed));
}

function connectionOf(runner: QueryRunner): unknown {
  return (runner as { readonly databaseConnection?: unknown }).databaseConnection;
}

/**
 * Its COMMIT has failed, and its locks end with it. MySQL leaves it open, such as where it was not understood.
 *
 * @param query sends a statement past whatever refuses it
 */
export async function endUncommitted(
  { manager }: QueryRunner,
  query: (sql: string) => Promise<unknown>,
): Promise<void> {
  if (knownPgClient(manager) !== undefined) return; // PostgreSQL has rolled it back
  if (!(await isRolledBack(query('ROLLBACK')))) await closeConnectionOf(manager);
}

/** @param commit TypeORM's own @throws also if its answer does not come for as long as the locks last */
export function commitInTime(
  { commit: watched }: TransactionScope,
  commit: () => Promise<void>,
): Promise<void> {
  return new Promise((resolve, reject) => {
    watched.whenOverdue(reject);
    commit().then(resolve, reject);
  });
}
