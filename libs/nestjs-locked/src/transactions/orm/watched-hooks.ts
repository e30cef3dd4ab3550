import { runHooks } from '../scope/hook-context.js';
import type { TransactionScope } from '../scope/transaction-scope.js';

/** The part of TypeORM's query runner that calls subscribers and entity listeners. */
interface Broadcasts {
  readonly broadcaster: object;
}

/** Runs all hooks called by a query runner as hooks of its transaction. @param current its latest transaction */
export function watchHooks(runner: Broadcasts, current: () => TransactionScope | undefined): void {
  const { broadcaster } = runner;
  const watched = new Proxy(broadcaster, {
    get: (target, name) => {
      const value: unknown = Reflect.get(target, name);
      if (typeof value !== 'function') return value;
      return (...args: unknown[]): unknown =>
        runHooks(current(), () => Reflect.apply(value, target, args) as unknown);
    },
  });
  Object.defineProperty(runner, 'broadcaster', { ...FIELD, value: watched });
}

const FIELD = { configurable: true, enumerable: true, writable: true };
