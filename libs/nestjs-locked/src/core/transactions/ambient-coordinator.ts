import { AsyncLocalStorage } from 'node:async_hooks';
import { sharedCoordinator, type TransactionCoordinator } from '../open-transaction.js';
import { retryingConflicts } from './fence.js';
import { Restart } from './restart.js';
import { isRefusedCommit } from './sql-error.js';
import type { TransactionDescription } from './transaction-description.js';
import { TransactionScope } from './transaction-scope.js';

/** Runs the body of a transaction; called by the adapter when the transaction is open, with what identifies it. */
export type EnterTransaction<R> = (tx: object, body: () => Promise<R>) => Promise<R>;

/**
 * The open transactions of this process, by async context. Adapters tell it of every transaction that they open.
 */
export class AmbientCoordinator implements TransactionCoordinator {
  readonly #storage = new AsyncLocalStorage<TransactionScope>();

  current(): TransactionScope | undefined {
    let scope = this.#storage.getStore();
    while (scope !== undefined && !scope.isAmbient) scope = scope.outer;
    return scope;
  }

  /**
   * Runs a transaction that is opened with a callback.
   *
   * @param open opens it and passes the body to `enter`; may be called again, to run the transaction from its
   * beginning. It may call `enter` more than once, as drivers do that repeat a transaction themselves
   */
  run<R>(
    description: TransactionDescription,
    open: (enter: EnterTransaction<R>) => Promise<R>,
  ): Promise<R> {
    const outer = this.#openAround();
    const once = (restart: Restart): Promise<R> =>
      retryingConflicts(() => this.#once(description, open, restart, outer));
    if (outer !== undefined) return once(outer.restart);
    const restart = new Restart();
    return restart.repeat(() => once(restart));
  }

  /** A transaction that is opened by hand: it cannot be run again, and nobody sees that code runs inside of it. */
  open(description: TransactionDescription, tx: object): TransactionScope {
    return new TransactionScope(description, tx, new Restart(), this.#openAround());
  }

  #openAround(): TransactionScope | undefined {
    let scope = this.#storage.getStore();
    while (scope !== undefined && !scope.isOpen) scope = scope.outer;
    return scope;
  }

  async #once<R>(
    description: TransactionDescription,
    open: (enter: EnterTransaction<R>) => Promise<R>,
    restart: Restart,
    outer: TransactionScope | undefined,
  ): Promise<R> {
    let scope: TransactionScope | undefined;
    let isDone = false;
    try {
      const result = await open(async (tx, body) => {
        const known = this.#scopeOf(tx);
        if (known !== undefined) return body(); // another adapter has seen it first
        await scope?.end('rolled-back'); // the driver repeats the transaction
        isDone = false;
        scope = new TransactionScope(description, tx, restart, outer);
        const current = scope;
        const value = await this.#storage.run(current, () => current.run(body));
        isDone = true;
        return value;
      });
      await scope?.end('committed');
      return result;
    } catch (error) {
      await scope?.end(isDone && !isRefusedCommit(error) ? 'unknown' : 'rolled-back');
      throw error;
    }
  }

  #scopeOf(tx: object): TransactionScope | undefined {
    let scope = this.#storage.getStore();
    while (scope !== undefined && !(scope.isOpen && scope.tx === tx)) scope = scope.outer;
    return scope;
  }
}

/** The one of this process. */
export function ambientCoordinator(): AmbientCoordinator {
  return sharedCoordinator(() => new AmbientCoordinator());
}
