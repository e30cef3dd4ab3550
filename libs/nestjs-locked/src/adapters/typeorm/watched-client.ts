import type { QueryRunner } from 'typeorm';
import { EventEmitter } from 'node:events';
import { closeConnectionOf, isBroken } from '../../transactions/orm/broken-connection.js';
import { ClientWatch, isWatchable } from '../../transactions/orm/client-watch.js';
import { knownPgClient } from '../../transactions/orm/pg-client.js';
import { isRolledBack } from '../../transactions/orm/sure-rollback.js';
import type { TransactionScope } from '../../transactions/scope/transaction-scope.js';

/**
 * Watches the client of a manually driven transaction until it has ended: only the client shows that a COMMIT was
 * answered with ROLLBACK.
 */
export function watchClient(manager: object, begun: TransactionScope): void {
  const own = knownPgClient(manager);
  if (!isWatchable(own)) return;
  // A pool sets another `release` for the next user of the client, who may get it before the scope has ended.
  const pooled = own as { readonly release?: unknown };
  const ofThisUse = pooled.release;
  const client = new ClientWatch(own, () => pooled.release === ofThisUse);
  client.opened(manager);
  begun.atEnd(() => client.stop());
}

/**
 * Whether the connection of the runner is known to be dead. On PostgreSQL, TypeORM then releases the query runner
 * itself, bypassing `release()`; on MySQL, it leaves that to the caller.
 */
export function hasDied(runner: QueryRunner): boolean {
  return runner.isReleased || isBroken(connectionOf(runner));
}

/**
 * Reports a dead connection, because the runner's code may then neither roll back nor release it: it usually checks
 * `isReleased` first.
 *
 * @param died called only until the transaction has ended
 */
export function whenConnectionDies(
  runner: QueryRunner,
  begun: TransactionScope,
  died: () => void,
): void {
  const connection = connectionOf(runner);
  // A listener of ours would swallow an error that nobody else handles.
  if (!(connection instanceof EventEmitter) || connection.listenerCount('error') === 0) return;
  // mysql2 marks errors that end its connection as `fatal`.
  const failed = ({ fatal }: { readonly fatal?: unknown }): void => {
    if (runner.isReleased || fatal === true) died();
  };
  if (runner.isReleased) died(); // during BEGIN
  if (!begun.isOpen) return;
  connection.on('error', failed);
  begun.atEnd(() => connection.off('error', failed));
}

function connectionOf(runner: QueryRunner): unknown {
  return (runner as { readonly databaseConnection?: unknown }).databaseConnection;
}

/**
 * Ends a transaction whose COMMIT has failed, together with its locks. MySQL leaves it open, for example if the
 * statement was not understood.
 *
 * @param query sends a statement that no guard refuses
 */
export async function endUncommitted(
  { manager }: QueryRunner,
  query: (sql: string) => Promise<unknown>,
): Promise<void> {
  if (knownPgClient(manager) !== undefined) return; // PostgreSQL has rolled it back
  if (!(await isRolledBack(query('ROLLBACK')))) await closeConnectionOf(manager);
}

/** @param commit TypeORM's own @throws also if it is not answered while the locks last */
export function commitInTime(
  { commit: watched }: TransactionScope,
  commit: () => Promise<void>,
): Promise<void> {
  return new Promise((resolve, reject) => {
    watched.whenOverdue(reject);
    commit().then(resolve, reject);
  });
}
