import { AsyncLocalStorage } from 'node:async_hooks';
import { rollBackForSure, type RollsBack } from './sure-rollback.js';

/** What TypeORM sends a transaction's statements through, as far as it is watched here. */
export interface GuardableRunner extends RollsBack {
  query: (sql: string, ...more: never[]) => Promise<unknown>;
  stream?: (sql: string, ...more: never[]) => Promise<unknown>;
  rollbackTransaction: () => Promise<void>;
}

const GUARDED = Symbol.for('nestjs-locked/GuardedRunner');
/** The one that is being rolled back by the code that runs here: that has to get through, with its subscribers. */
const ROLLING_BACK = new AsyncLocalStorage<GuardableRunner>();

export function isGuardableRunner(value: unknown): value is GuardableRunner {
  const { query, rollbackTransaction } = (value ?? {}) as Partial<GuardableRunner>;
  return typeof query === 'function' && typeof rollbackTransaction === 'function';
}

/**
 * Asks before each statement whether it may be sent; once for each runner.
 *
 * @param assertTakes throws if not
 */
export function guardRunner(runner: GuardableRunner, assertTakes: (sql: string) => void): void {
  if (GUARDED in runner) return;
  Object.defineProperty(runner, GUARDED, { value: true });
  const check = (sql: string): void => {
    if (ROLLING_BACK.getStore() !== runner) assertTakes(sql);
  };
  const { query, stream, rollbackTransaction } = runner;
  runner.query = async (sql, ...more) => {
    check(sql);
    return query.call(runner, sql, ...more);
  };
  if (typeof stream === 'function') {
    runner.stream = async (sql, ...more) => {
      check(sql);
      return stream.call(runner, sql, ...more);
    };
  }
  runner.rollbackTransaction = () =>
    ROLLING_BACK.run(runner, () =>
      rollBackForSure(
        runner,
        () => rollbackTransaction.call(runner),
        (sql) => query.call(runner, sql),
      ),
    );
}
