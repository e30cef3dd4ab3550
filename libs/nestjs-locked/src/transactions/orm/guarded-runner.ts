import { ContextVariable } from '../../core/context-variable.js';
import { ambientCoordinator } from '../scope/ambient-coordinator.js';
import type { TransactionScope } from '../scope/transaction-scope.js';
import { knownDepth, noteOpening } from './known-depth.js';
import { noteCommitted } from './left-open-runners.js';
import {
  isForgottenBy,
  oneAtATime,
  rollBackAndRelease,
  rollBackForSure,
  type RolledBack,
  type RollsBack,
} from './sure-rollback.js';

/** The part of TypeORM's query runner that sends the statements of a transaction. */
export interface GuardableRunner extends RollsBack {
  query: (sql: string, ...more: never[]) => Promise<unknown>;
  stream?: (sql: string, ...more: never[]) => Promise<unknown>;
  startTransaction?: (...options: never[]) => Promise<void>;
  commitTransaction?: () => Promise<void>;
  rollbackTransaction: () => Promise<void>;
  release?: () => Promise<void>;
  /** The object of its transaction. */
  readonly manager?: object;
}

const GUARDED = Symbol.for('nestjs-locked/GuardedRunner');
interface Ending {
  /** Undefined when the ending is over, to which unawaited work of a subscriber no longer belongs. */
  runner: object | undefined;
}

/** The transaction being ended here, whose statements and those of its subscribers must pass. */
const ENDING = new ContextVariable<Ending>();

/** Runs the ending of a query runner's transaction. */
export async function endingOn<R>(runner: object, end: () => Promise<R>): Promise<R> {
  const ending: Ending = { runner };
  try {
    return await ENDING.run(ending, end);
  } finally {
    ending.runner = undefined;
  }
}

/** Whether the running code is ending the transaction of the query runner. */
export function isEndingHere(runner: object): boolean {
  return ENDING.get()?.runner === runner;
}

export function isGuardableRunner(value: unknown): value is GuardableRunner {
  const { query, rollbackTransaction } = (value ?? {}) as Partial<GuardableRunner>;
  return typeof query === 'function' && typeof rollbackTransaction === 'function';
}

/**
 * Asks before each statement whether it may be sent. A runner is wrapped only once.
 *
 * @param assertTakes throws if not
 */
export function guardRunner(runner: GuardableRunner, assertTakes: (sql: string) => void): void {
  if (GUARDED in runner) return;
  Object.defineProperty(runner, GUARDED, { value: true });
  const { query } = runner;
  guardStatements(runner, assertTakes);
  guardEndings(runner, query);
}

/**
 * Asks before each statement whether it may be sent, but not before those of `endingOn`.
 *
 * @param assertTakes throws if not
 */
export function guardStatements(
  runner: Pick<GuardableRunner, 'query' | 'stream'>,
  assertTakes: (sql: string) => void,
): void {
  const refusal = (sql: string): Error | undefined => {
    try {
      if (!isEndingHere(runner)) assertTakes(sql);
      return undefined;
    } catch (error) {
      return error as Error;
    }
  };
  const { query, stream } = runner;
  // Not async: every statement passes here, and promises are not free.
  runner.query = (sql, ...more) => {
    const refused = refusal(sql);
    return refused === undefined ? query.call(runner, sql, ...more) : Promise.reject(refused);
  };
  if (typeof stream === 'function') {
    runner.stream = async (sql, ...more) => {
      const refused = refusal(sql);
      if (refused !== undefined) throw refused;
      return stream.call(runner, sql, ...more);
    };
  }
}

/**
 * Guards the two methods that end both the transaction and its nested transactions (savepoints); TypeORM always ends
 * the innermost one. Here, only the code that opened the transaction ends it, completely; nested transactions end
 * before or with it.
 */
function guardEndings(runner: GuardableRunner, query: GuardableRunner['query']): void {
  const coordinator = ambientCoordinator();
  const { startTransaction, commitTransaction, rollbackTransaction, release } = runner;
  const { manager = runner } = runner;
  /**
   * The scopes that are ending. Calls from outside the body meanwhile come from a subscriber, for its own nested
   * transaction or, after the end, for the next one.
   */
  const ending = new Set<TransactionScope>();
  let rollingBack: { readonly scope: TransactionScope; readonly done: Promise<void> } | undefined;

  const end = async (scope: TransactionScope, act: () => Promise<void>): Promise<void> => {
    ending.add(scope);
    try {
      await act();
    } finally {
      ending.delete(scope);
    }
  };
  const rollBack = (what: RolledBack): Promise<void> =>
    endingOn(runner, () =>
      rollBackForSure(
        runner,
        what,
        () => rollbackTransaction.call(runner),
        (sql) => query.call(runner, sql),
      ),
    );
  /** Waits with a nested transaction that ends too late, which TypeORM refuses when its transaction has ended. */
  const rolledBack = async (): Promise<void> => {
    // A hook after the end, for the next transaction, would wait for itself.
    if (rollingBack === undefined || !coordinator.isInBodyOf(rollingBack.scope)) return;
    await rollingBack.done.catch(() => {}); // reported to the caller that rolls back
  };

  if (typeof startTransaction === 'function') {
    runner.startTransaction = async (...options) => {
      noteOpening(runner, 1);
      try {
        await startTransaction.apply(runner, options);
      } finally {
        noteOpening(runner, -1);
      }
    };
  }
  if (typeof commitTransaction === 'function') {
    runner.commitTransaction = async () => {
      const scope = coordinator.endedHere(manager);
      if (scope === undefined && rollingBack !== undefined) await rolledBack();
      if (scope === undefined || ending.has(scope)) return commitTransaction.call(runner);
      await end(scope, async () => {
        scope.assertNoneNested(knownDepth({ queryRunner: runner }) > 0);
        await commitTransaction.call(runner);
        // If a nested one was opened meanwhile, TypeORM has ended that. After the COMMIT, an open one is the next
        // transaction, of a hook.
        const isCommitted = scope.commit.progress === 'answered';
        scope.assertNoneNested(runner.isTransactionActive && !isCommitted);
        noteCommitted(runner, scope);
      });
    };
  }
  runner.rollbackTransaction = async () => {
    const scope = coordinator.endedHere(manager);
    if (scope === undefined && rollingBack !== undefined) await rolledBack();
    if (scope === undefined || ending.has(scope)) return rollBack('innermost');
    scope.beforeRollback();
    rollingBack = { scope, done: end(scope, () => rollBack('whole')) };
    await rollingBack.done;
  };
  if (typeof release === 'function') {
    // Released by the body or a hook, the connection would return to the pool inside the transaction.
    runner.release = oneAtATime(async () => {
      const releaseIt = (): Promise<void> => release.call(runner);
      const isActive = runner.isTransactionActive || isForgottenBy(runner);
      const isLocked = isActive && coordinator.openScope(manager)?.isLocked === true;
      if (!isLocked || runner.isReleased === true) await releaseIt();
      else await rollBackAndRelease(runner, (sql) => query.call(runner, sql), releaseIt);
    });
  }
}
