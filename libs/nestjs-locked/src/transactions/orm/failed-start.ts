import { LockInTransactionError } from '../../core/lock.errors.js';
import { holdsHere } from '../scope/guarding-hold.js';
import { watchCommit } from './commit-watch.js';
import { depthOf, isConnectedRunner } from './known-depth.js';
import { rollBackAndRelease, rollBackForSure, type RollsBack } from './sure-rollback.js';

/** The part of TypeORM's query runner that begins transactions, and rolls back failed starts. */
interface Begins extends RollsBack {
  startTransaction: (...options: never[]) => Promise<void>;
  rollbackTransaction: () => Promise<void>;
  query: (sql: string) => Promise<unknown>;
  release: () => Promise<void>;
  readonly manager: object;
}

/**
 * Makes sure that a transaction under a lock is over after a hook at its start has failed, when it is already open. If
 * the hook left a savepoint open, TypeORM would roll back only that and release the connection inside the transaction,
 * which the next one on it would commit. The same happens if the hook itself releases the connection; if it does so
 * before the BEGIN, which TypeORM sends anyway, the connection is released after the BEGIN.
 *
 * @returns the same query runner
 */
export function rollingBackFailedStarts<R extends Begins>(runner: R): R {
  const start = runner.startTransaction;
  const rollback = runner.rollbackTransaction.bind(runner);
  const query = runner.query.bind(runner);
  const release = runner.release.bind(runner);
  let hasFailed = false;
  let isStarting = false;
  let isReleasedEarly = false;
  const released = runner as { isReleased?: boolean };
  const giveBack = async (): Promise<void> => {
    isReleasedEarly = false;
    released.isReleased = false;
    await rollBackAndRelease(runner, query, release);
  };
  runner.startTransaction = async (...options) => {
    const isNested = depthOf(runner) > 0;
    const isLocked = holdsHere().length > 0;
    if (!isNested) isStarting = isLocked;
    try {
      await start.apply(runner, options);
      hasFailed = false;
      if (isReleasedEarly) throw releasedEarly();
    } catch (error) {
      hasFailed = isLocked && !isNested && depthOf(runner) > 0;
      if (hasFailed) watchCommit(runner.manager); // to see its ROLLBACK
      throw error;
    } finally {
      if (!isNested) isStarting = false;
      if (isReleasedEarly && !isNested) await giveBack();
    }
  };
  runner.release = () => {
    if (!isStarting || runner.isReleased === true) return release();
    if (depthOf(runner) > 0) return rollBackAndRelease(runner, query, release);
    // TypeORM counts the transaction only after the hooks of its BEGIN, which may be in flight or done.
    isReleasedEarly = runner.isTransactionActive && isConnectedRunner(runner);
    if (!isReleasedEarly) return release();
    released.isReleased = true; // TypeORM refuses other statements meanwhile
    return Promise.resolve();
  };
  runner.rollbackTransaction = async () => {
    if (!hasFailed) return rollback();
    hasFailed = false;
    await rollBackForSure(runner, 'whole', rollback, query);
  };
  return runner;
}

function releasedEarly(): LockInTransactionError {
  return new LockInTransactionError(
    'A hook has released the query runner while its transaction began, which has rolled it back; release a query runner when its transaction has ended',
  );
}
