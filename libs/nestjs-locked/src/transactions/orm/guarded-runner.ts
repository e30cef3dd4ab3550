import { AsyncLocalStorage } from 'node:async_hooks';
import { rollBackForSure, type RollsBack } from './sure-rollback.js';

/** The part of TypeORM's query runner that sends the statements of a transaction. */
export interface GuardableRunner extends RollsBack {
  query: (sql: string, ...more: never[]) => Promise<unknown>;
  stream?: (sql: string, ...more: never[]) => Promise<unknown>;
  rollbackTransaction: () => Promise<void>;
}

const GUARDED = Symbol.for('nestjs-locked/GuardedRunner');
/** The runner that the code here is rolling back: this has to get through, with the statements of its subscribers. */
const ROLLING_BACK = new AsyncLocalStorage<GuardableRunner>();

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
  const refusal = (sql: string): Error | undefined => {
    try {
      if (ROLLING_BACK.getStore() !== runner) assertTakes(sql);
      return undefined;
    } catch (error) {
      return error as Error;
    }
  };
  const { query, stream, rollbackTransaction } = runner;
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
  runner.rollbackTransaction = () =>
    ROLLING_BACK.run(runner, () =>
      rollBackForSure(
        runner,
        () => rollbackTransaction.call(runner),
        (sql) => query.call(runner, sql),
      ),
    );
}
