import type { QueryRunner } from 'typeorm';
import { AsyncLocalStorage } from 'node:async_hooks';
import { retryingConflicts } from '../../transactions/fence/fence.js';
import { closeConnectionOf } from '../../transactions/orm/broken-connection.js';
import { ClientWatch, isWatchable } from '../../transactions/orm/client-watch.js';
import { watchCommit } from '../../transactions/orm/commit-watch.js';
import { endingOn, guardStatements, isEndingHere } from '../../transactions/orm/guarded-runner.js';
import { leftOpenOn, noteCommitted } from '../../transactions/orm/left-open-runners.js';
import { knownPgClient } from '../../transactions/orm/pg-client.js';
import {
  endForSure,
  isForgottenBy,
  rollBackAndRelease,
  rollBackForSure,
} from '../../transactions/orm/sure-rollback.js';
import { watchHooks } from '../../transactions/orm/watched-hooks.js';
import {
  assertStillHere,
  type GuardingHold,
  holdsHere,
} from '../../transactions/scope/guarding-hold.js';
import type { TransactionOutcome } from '../../transactions/scope/transaction-outcome.js';
import { A_STATEMENT, type TransactionScope } from '../../transactions/scope/transaction-scope.js';

type Isolation = Parameters<QueryRunner['startTransaction']>[0];

export interface RunnerWatch {
  /** Whether something else follows the transaction that begins now. */
  readonly isSeen: () => boolean;
  /** Begins a scope; `start` opens its transaction. */
  readonly open: (isolation: Isolation, start: () => Promise<void>) => Promise<TransactionScope>;
}

/** Opens a nested transaction, with a callback, in the one that is driven by hand. */
export type OpenNested = <T>(open: () => Promise<T>) => Promise<T>;

/**
 * The transaction that is driven by hand, for the code in a nested one that was opened with a callback, until that one
 * has ended.
 */
const NESTED_IN = new AsyncLocalStorage<{ scope: TransactionScope | undefined }>();

/**
 * Follows the transactions of a query runner that is driven by hand. Savepoints use the same methods, and are passed
 * over.
 *
 * @returns what its nested transactions have to be opened through
 */
export function watchRunner(runner: QueryRunner, { isSeen, open }: RunnerWatch): OpenNested {
  const start = runner.startTransaction.bind(runner);
  const commit = runner.commitTransaction.bind(runner);
  const rollback = runner.rollbackTransaction.bind(runner);
  const release = runner.release.bind(runner);
  const query = runner.query.bind(runner);
  let scope: TransactionScope | undefined;
  let depth = 0;
  let isCommitting = false;
  let isRollingBack = false;
  let openNested = 0;
  /** It is being ended, as a late statement is told. */
  let ending: 'ended' | 'failing' | undefined;

  const end = async (how: 'ended' | 'failing', act: () => Promise<void>): Promise<void> => {
    if (ending !== undefined) return endingOn(runner, act); // a branch ends it once more: TypeORM says so
    ending = how;
    try {
      await endingOn(runner, act);
    } finally {
      ending = undefined;
    }
  };
  // A branch that was not awaited would write behind the COMMIT or ROLLBACK, outside of the transaction.
  const assertNotEnding = (): void => {
    if (ending !== undefined && scope?.isLocked === true) throw scope.refusal(ending, A_STATEMENT);
  };
  const assertTakes = (sql: string): void => {
    assertNotEnding();
    // After a COMMIT that was refused, TypeORM waits for the rollback.
    if (scope?.isOpen === true || depth > 0) scope?.assertTakes(sql);
  };
  guardStatements(runner, assertTakes);
  watchHooks(runner, () => scope);

  const nested: OpenNested = async (opened) => {
    openNested++;
    const around = { scope: scope?.isOpen === true ? scope : undefined };
    try {
      return await NESTED_IN.run(around, opened);
    } finally {
      openNested--;
      around.scope = undefined;
    }
  };
  /**
   * Whether it is the transaction itself that is ended here and now, although nested ones are open: TypeORM would end
   * the innermost of them. Under a lock, one that could not be rolled back counts; without, it may be tried once more.
   *
   * @throws LockInTransactionError if it is a nested one whose transaction ends, or has ended, under a lock
   */
  const outlivesNested = (): boolean => {
    const around = NESTED_IN.getStore()?.scope;
    if (around === undefined || around.tx !== runner.manager) {
      if (scope?.isOpen !== true || depth - openNested > 1) return false;
      return openNested > 0 || (scope.isLocked && isInSavepoint(runner));
    }
    const isLocked = around.isLocked || scope?.isLocked === true;
    if (isLocked && (isRollingBack || around !== scope || !scope.isOpen)) {
      throw around.refusal('ended', { callSite: 'A nested transaction', keys: [] });
    }
    return false;
  };

  /** It may be that a hook after its end has begun the next one. */
  const ended = (which: TransactionScope | undefined): void => {
    if (scope === which) depth = 0;
  };

  const begin = async (
    isolation: Isolation,
    askedUnder: readonly GuardingHold[],
  ): Promise<void> => {
    const before = leftOpenOn(runner);
    if (before !== undefined && holdsHere().length > 0) {
      await closeConnectionOf(runner.manager);
      throw before.refusal('begun-inside', { callSite: 'A transaction', keys: [] });
    }
    const isOthers = isSeen() || (depth === 0 && isOpenOn(runner));
    // In a hook after its COMMIT or ROLLBACK, it is a transaction of its own.
    const isNested = depth > 0 && !hasEndedOn(runner);
    if (isOthers || isNested) {
      const before = depthOf(runner);
      try {
        await start(isolation);
      } catch (error) {
        if (!isOthers && depthOf(runner) > before) depth++; // a hook has failed: TypeORM waits for its end
        throw error;
      }
      if (!isOthers) depth++;
      return;
    }
    try {
      scope = await open(isolation, () => start(isolation));
    } catch (error) {
      // A hook after the start has failed. Nobody would claim for that transaction, nor guard its commit.
      if (askedUnder.length > 0 && isOpenOn(runner)) await endForSure(runner, query);
      throw error;
    }
    depth = 1;
    watchCommit(runner.manager);
    const own = knownPgClient(runner.manager);
    if (isWatchable(own)) {
      const client = new ClientWatch(own); // only there can be seen that a COMMIT was answered with ROLLBACK
      client.opened(runner.manager);
      scope.atEnd(() => client.stop());
    }
    try {
      assertStillHere(askedUnder);
      await scope.begin();
    } catch (error) {
      await runner.rollbackTransaction().catch(() => {});
      throw error;
    }
  };

  // When a claim conflicts with another one, nothing was done yet, so the transaction may begin again.
  runner.startTransaction = async (isolation) => {
    const askedUnder = holdsHere();
    if (!isEndingHere(runner)) assertNotEnding(); // TypeORM would take it for begun
    await retryingConflicts(() => begin(isolation, askedUnder));
  };

  const commitInTime = (committed: TransactionScope): Promise<void> =>
    new Promise((resolve, reject) => {
      committed.commit.whenOverdue(reject);
      commit().then(resolve, reject);
    });

  /** @returns the error for the caller */
  const endFailed = async (failed: TransactionScope, error: unknown): Promise<unknown> => {
    const { outcome, told } = failed.commit.failed(error, true);
    if (failed.commit.progress === 'not-sent') {
      await failed.commitUnsent(); // still open: a hook of other code has thrown
      return told;
    }
    if (failed.commit.progress === 'answered') ended(failed);
    // The answer is what counts. A rollback that follows finds that the scope has ended.
    await failed.end(outcome, told);
    return told;
  };

  const commitWhole = async (committed: TransactionScope): Promise<void> => {
    try {
      await committed.beforeCommit();
    } catch (error) {
      committed.commitFailed();
      throw error;
    }
    isCommitting = true;
    try {
      await commitInTime(committed);
      committed.assertNoneNested(committed.commit.progress === 'not-sent'); // opened since then: TypeORM has ended that one
    } catch (error) {
      throw await endFailed(committed, error);
    } finally {
      isCommitting = false;
    }
    ended(committed);
    noteCommitted(runner, committed);
    await committed.end('committed');
  };

  runner.commitTransaction = async () => {
    const isWhole = outlivesNested();
    scope?.assertNoneNested(isWhole);
    if (depth !== 1 || scope === undefined) {
      const before = depthOf(runner);
      try {
        await commit();
      } catch (error) {
        if (depthOf(runner) < before) depth = Math.max(0, depth - 1); // only a hook after it has failed
        throw error;
      }
      depth = Math.max(0, depth - 1);
      if (isWhole && scope !== undefined) noteCommitted(runner, scope);
      return;
    }
    const committed = scope;
    await end('ended', () => commitWhole(committed));
  };

  runner.rollbackTransaction = async () => {
    const isWhole = outlivesNested();
    isRollingBack ||= isWhole;
    const rolledBack = scope;
    const stays = !isWhole && (isInSavepoint(runner) || isForgottenBy(runner));
    const rollBack = (): Promise<void> =>
      rollBackForSure(runner, isWhole ? 'whole' : 'innermost', rollback, query);
    try {
      if (depth > 0 && !stays) scope?.beforeRollback();
      await (depth > 0 && !stays ? end('failing', rollBack) : rollBack());
    } finally {
      if (isWhole) isRollingBack = false;
      const isLatest = scope === rolledBack;
      if (isLatest) depth = stays ? Math.max(Math.min(1, depth), depth - 1) : 0;
      if (!isLatest || depth === 0) await rolledBack?.end('rolled-back');
    }
  };

  // This is the last resort: it is the only end of a transaction whose connection has died, and without a ROLLBACK a
  // pool would hand out a connection that is still in a transaction.
  const releaseNow = async (): Promise<void> => {
    const isOpen = scope?.isOpen === true;
    const outcome = isCommitting ? outcomeSoFar(scope) : 'rolled-back';
    try {
      if (isOpen && outcome === 'rolled-back') {
        await rollBackAndRelease(runner, query, release);
        return;
      }
      if (outcome === 'unknown') await closeConnectionOf(runner.manager);
      await release();
    } finally {
      depth = 0;
      if (isOpen) await scope?.end(outcome);
    }
  };
  let releasing: Promise<void> | undefined;
  runner.release = () =>
    (releasing ??= releaseNow().finally(() => {
      releasing = undefined;
    }));
  return nested;
}

/** Whether TypeORM would end a savepoint on it. */
function isInSavepoint(runner: QueryRunner): boolean {
  return depthOf(runner) > 1;
}

function depthOf(runner: QueryRunner): number {
  return (runner as { readonly transactionDepth?: number }).transactionDepth ?? 0;
}

/** Whether TypeORM knows that none is open on it: hooks after the end run then. */
function hasEndedOn(runner: QueryRunner): boolean {
  return (runner as { readonly transactionDepth?: number }).transactionDepth === 0;
}

/** Whether a transaction is open on it: where one could not be started, TypeORM says all the same that it is active. */
function isOpenOn(runner: QueryRunner): boolean {
  const { transactionDepth } = runner as { readonly transactionDepth?: number };
  return runner.isTransactionActive && transactionDepth !== 0;
}

/** What becomes of a transaction whose connection is given back while it is being committed, with its hooks. */
function outcomeSoFar(scope: TransactionScope | undefined): TransactionOutcome {
  const progress = scope?.commit.progress;
  if (progress === 'not-sent') return 'rolled-back';
  return progress === 'answered' ? 'committed' : 'unknown';
}
