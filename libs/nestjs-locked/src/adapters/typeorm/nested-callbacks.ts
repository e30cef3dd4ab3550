import { ContextVariable } from '../../core/context-variable.js';
import type { TransactionScope } from '../../transactions/scope/transaction-scope.js';

/** Opens a nested transaction with a callback inside a manually driven one. */
export type OpenNested = <T>(open: () => Promise<T>) => Promise<T>;

const NESTED_IN = new ContextVariable<{ scope: TransactionScope | undefined }>();

/** The nested transactions with a callback inside those of one manually driven query runner. */
export class NestedCallbacks {
  #open = 0;

  /** The manually driven transaction around the running code, until its nested one has ended. */
  static get around(): TransactionScope | undefined {
    return NESTED_IN.get()?.scope;
  }

  get open(): number {
    return this.#open;
  }

  async run<T>(scope: TransactionScope | undefined, opened: () => Promise<T>): Promise<T> {
    this.#open++;
    const around = { scope };
    try {
      return await NESTED_IN.run(around, opened);
    } finally {
      this.#open--;
      around.scope = undefined;
    }
  }
}
