import type { QueryRunner } from 'typeorm';
import { retryingConflicts } from '../../transactions/fence/fence.js';
import { closeConnectionOf } from '../../transactions/orm/broken-connection.js';
import { watchCommit } from '../../transactions/orm/commit-watch.js';
import { endingOn, guardStatements, isEndingHere } from '../../transactions/orm/guarded-runner.js';
import {
  depthOf,
  hasEndedOn,
  isGoneFrom,
  isInSavepoint,
  isOpenOn,
  isOutermostOn,
} from '../../transactions/orm/known-depth.js';
import { leftOpenOn, noteCommitted } from '../../transactions/orm/left-open-runners.js';
import {
  endForSure,
  isForgottenBy,
  oneAtATime,
  rollBackAndRelease,
  rollBackForSure,
} from '../../transactions/orm/sure-rollback.js';
import { watchDisposal } from '../../transactions/orm/watched-disposal.js';
import { watchHooks } from '../../transactions/orm/watched-hooks.js';
import {
  assertStillHere,
  type GuardingHold,
  holdsHere,
} from '../../transactions/scope/guarding-hold.js';
import { outcomeAt } from '../../transactions/scope/transaction-outcome.js';
import { A_STATEMENT, type TransactionScope } from '../../transactions/scope/transaction-scope.js';
import { transactionGone } from '../../transactions/sql/transaction-gone.js';
import { NestedCallbacks, type OpenNested } from './nested-callbacks.js';
import {
  commitInTime,
  endUncommitted,
  hasDied,
  watchClient,
  whenConnectionDies,
} from './watched-client.js';

type Isolation = Parameters<QueryRunner['startTransaction']>[0];
type Holds = readonly GuardingHold[];

export interface RunnerWatch {
  /** Whether the transaction that begins now is already followed. */
  readonly isSeen: () => boolean;
  /** Begins a scope; `start` opens its transaction. */
  readonly open: (isolation: Isolation, start: () => Promise<void>) => Promise<TransactionScope>;
}

/**
 * Follows the transactions of a manually driven query runner. Savepoints use the same methods and are ignored.
 *
 * @returns opens its nested transactions
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
  const callbacks = new NestedCallbacks();
  /** Whether the last request committed a nested transaction, so that the code may believe everything committed. */
  let hasCommittedNested = false;
  /** Set while the transaction is being ended; the reason why late statements are refused. */
  let ending: 'ended' | 'failing' | undefined;

  const end = async (how: 'ended' | 'failing', act: () => Promise<void>): Promise<void> => {
    if (ending !== undefined) return endingOn(runner, act); // another branch ends it again, which TypeORM reports
    ending = how;
    await endingOn(runner, act).finally(() => {
      ending = undefined;
    });
  };
  // A branch that was not awaited would write after the COMMIT or ROLLBACK, outside the transaction.
  const assertNotEnding = (): void => {
    if (ending !== undefined && scope?.isLocked === true) throw scope.refusal(ending, A_STATEMENT);
  };
  const assertTakes = (sql: string): void => {
    assertNotEnding();
    // After a refused COMMIT, TypeORM waits for the rollback.
    if (scope?.isOpen === true || depth > 0) scope?.assertTakes(sql);
  };
  guardStatements(runner, assertTakes);
  watchHooks(runner, () => scope);

  /**
   * Whether this call ends the transaction itself although nested ones are open, of which TypeORM would end the
   * innermost. Under a lock, a nested one that could not be rolled back counts as open; without, its rollback may be
   * retried.
   *
   * @throws LockInTransactionError for a nested transaction whose outer one, under a lock, is ending, has ended, or
   * would end with it
   */
  const outlivesNested = (): boolean => {
    const around = NestedCallbacks.around;
    if (around === undefined || around.tx !== runner.manager) {
      if (scope?.isOpen !== true || depth - callbacks.open > 1) return false;
      return callbacks.open > 0 || (scope.isLocked && isInSavepoint(runner));
    }
    if (runner.isReleased) return false; // its connection has died, which TypeORM reports
    const isLocked = around.isLocked || scope?.isLocked === true;
    if (isLocked && (isRollingBack || around !== scope || !scope.isOpen)) {
      throw around.refusal('ended', { callSite: 'A nested transaction', keys: [] });
    }
    if (isLocked && isOutermostOn(runner)) throw around.endedByNested();
    return false;
  };

  /** A hook after its end may have begun the next one already. */
  const ended = (which: TransactionScope | undefined): void => {
    if (scope === which) depth = 0;
  };

  /** Called when the connection has died. A pending COMMIT or ROLLBACK now fails and determines the outcome. */
  const died = (which: TransactionScope): void => {
    if (ending !== undefined && which.isEnding) return;
    if (hasCommittedNested) which.leftUncommitted();
    ended(which);
    // An error fatal to mysql2 may be an unreadable answer, and the server would keep the transaction open.
    if (which.isLocked) void closeConnectionOf(runner.manager);
    void which.end('rolled-back');
  };

  const begin = async (isolation: Isolation, askedUnder: Holds): Promise<void> => {
    const before = leftOpenOn(runner);
    if (before !== undefined && holdsHere().length > 0) {
      await closeConnectionOf(runner.manager);
      throw before.refusal('begun-inside', { callSite: 'A transaction', keys: [] });
    }
    // A hook after the end begins the next one, whose statements do not belong to the previous scope.
    if (isSeen() && hasEndedOn(runner)) [depth, scope] = [0, undefined];
    const isOthers = isSeen() || (depth === 0 && (isOpenOn(runner) || isForgottenBy(runner)));
    // In a hook after COMMIT or ROLLBACK, it is a separate transaction.
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
    const earlier = scope;
    const begun = await open(isolation, () => start(isolation)).catch(async (error: unknown) => {
      // A hook after the start has failed, and nothing would claim the locks of this transaction or guard its commit.
      if (askedUnder.length > 0 && isOpenOn(runner)) await endForSure(runner, query);
      throw error;
    });
    const isOfHook = scope !== earlier && scope?.isOpen === true;
    // Not every driver or database reports the session.
    if (isOfHook || isGoneFrom(runner)) {
      await begun.end('rolled-back'); // a hook at its start has ended it or begun another one
      if (askedUnder.length === 0) return;
      if (isOfHook) await runner.rollbackTransaction().catch(() => {});
      throw transactionGone();
    }
    [depth, scope] = [1, begun];
    watchCommit(runner.manager);
    watchClient(runner.manager, begun);
    try {
      assertStillHere(askedUnder);
      await begun.begin();
    } catch (error) {
      await runner.rollbackTransaction().catch(() => {});
      throw error;
    }
    whenConnectionDies(runner, begun, () => died(begun));
  };

  // When a claim conflicts with another one, no work was done yet, so the transaction may begin again.
  runner.startTransaction = async (isolation) => {
    const askedUnder = holdsHere();
    if (!isEndingHere(runner)) assertNotEnding(); // TypeORM would treat it as begun
    await retryingConflicts(() => begin(isolation, askedUnder));
  };

  /** @returns the error for the caller */
  const endFailed = async (failed: TransactionScope, error: unknown): Promise<unknown> => {
    const { outcome, told } = failed.commit.failed(error, true);
    if (!failed.isLocked && hasEndedOn(runner)) {
      ended(failed); // a hook after its COMMIT has failed, which is not followed without a lock
      await failed.end('committed');
      return told;
    }
    if (failed.commit.progress === 'not-sent' && !hasDied(runner)) {
      await failed.commitUnsent(); // still open: a hook of the application has thrown
      return told;
    }
    if (failed.commit.progress === 'answered') ended(failed);
    if (failed.commit.progress === 'sent' && failed.isLocked) await endUncommitted(runner, query);
    // The answer decides; a later rollback finds that the scope has ended.
    await failed.end(outcome, told);
    return told;
  };

  const commitWhole = async (committed: TransactionScope): Promise<void> => {
    committed.assertNotEnded();
    try {
      await committed.beforeCommit();
    } catch (error) {
      committed.commitFailed();
      if (hasDied(runner)) await committed.end('rolled-back');
      throw error;
    }
    isCommitting = true;
    try {
      await commitInTime(committed, commit);
      committed.commit.assertNotRolledBack(); // by a hook, so that TypeORM had nothing to commit
      const isUnsent = committed.commit.progress === 'not-sent';
      committed.assertNoneNested(isUnsent && depthOf(runner) > 0); // opened meanwhile, and TypeORM has ended that one
      committed.commit.succeeded(); // other code may have kept the COMMIT from the database
    } catch (error) {
      throw await endFailed(committed, error);
    } finally {
      isCommitting = false;
    }
    ended(committed);
    noteCommitted(runner, committed);
    await committed.end('committed');
  };

  const isDisposing = watchDisposal(runner);
  runner.commitTransaction = async () => {
    if (NestedCallbacks.around === undefined) hasCommittedNested = false;
    // `await using` commits the transaction itself, even with nested ones open.
    const isDisposed = isDisposing() && depth > 1 && scope?.isOpen === true;
    const whole = isDisposed || outlivesNested() ? scope : undefined;
    scope?.assertNoneNested(whole !== undefined);
    if (isDisposed) depth = 1;
    if (depth !== 1 || scope === undefined) {
      const before = depthOf(runner);
      try {
        await commit();
      } catch (error) {
        if (depthOf(runner) < before) depth = Math.max(0, depth - 1); // only a later hook has failed
        throw error;
      }
      depth = Math.max(0, depth - 1);
      hasCommittedNested ||= NestedCallbacks.around === undefined && depthOf(runner) > 0;
      if (whole !== undefined) noteCommitted(runner, whole);
      return;
    }
    const committed = scope;
    await end('ended', () => commitWhole(committed));
  };

  runner.rollbackTransaction = async () => {
    if (NestedCallbacks.around === undefined) hasCommittedNested = false;
    const isWhole = outlivesNested();
    isRollingBack ||= isWhole;
    const rolledBack = scope;
    const stays = !isWhole && (isInSavepoint(runner) || isForgottenBy(runner));
    // Under a lock, not even a savepoint opened by an earlier hook saves the transaction.
    const isSure = isWhole || (!stays && depth > 0 && scope?.isLocked === true);
    const rollBack = (): Promise<void> =>
      rollBackForSure(runner, isSure ? 'whole' : 'innermost', rollback, query);
    try {
      if (depth > 0 && !stays) scope?.beforeRollback();
      await (depth > 0 && !stays ? end('failing', rollBack) : rollBack());
    } finally {
      if (isWhole) isRollingBack = false;
      const isLatest = scope === rolledBack;
      // If an earlier hook has ended the nested one, TypeORM has rolled back the transaction.
      const staysOpen = stays && !hasEndedOn(runner);
      if (isLatest) depth = staysOpen ? Math.max(Math.min(1, depth), depth - 1) : 0;
      if (!isLatest || depth === 0) await rolledBack?.end('rolled-back');
    }
  };

  // Without a ROLLBACK, a pool would hand out a connection that is still in a transaction.
  runner.release = oneAtATime(async () => {
    const isOpen = scope?.isOpen === true;
    if (isOpen && hasCommittedNested) scope?.leftUncommitted();
    hasCommittedNested = false;
    // A hook before the COMMIT has released the runner. Without a lock, TypeORM sends the COMMIT all the same.
    const isLeftAlone = isCommitting && scope?.isLocked === false;
    const outcome = isCommitting ? outcomeAt(scope?.commit.progress) : 'rolled-back';
    try {
      const mustRollBack = isOpen && outcome === 'rolled-back' && !isLeftAlone;
      if (outcome === 'unknown') await closeConnectionOf(runner.manager);
      await (mustRollBack ? rollBackAndRelease(runner, query, release) : release());
    } finally {
      depth = 0;
      if (isOpen && !isLeftAlone) await scope?.end(outcome);
    }
  });
  return (opened) => callbacks.run(scope, opened);
}
