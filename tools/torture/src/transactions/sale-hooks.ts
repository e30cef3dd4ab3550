import { AsyncLocalStorage } from 'node:async_hooks';

/** What the application does just before and just after the COMMIT of its transaction. */
export interface SaleHooks {
  readonly beforeCommit: () => Promise<void>;
  readonly afterCommit: () => Promise<void>;
}

const current = new AsyncLocalStorage<SaleHooks | undefined>();

/** Runs a transaction that has these hooks; undefined for one inside of another, which has none. */
export function withHooks<T>(hooks: SaleHooks | undefined, work: () => T): T {
  return current.run(hooks, work);
}

/** The hooks of the transaction that is being committed in this async context. */
export function currentHooks(): SaleHooks | undefined {
  return current.getStore();
}
