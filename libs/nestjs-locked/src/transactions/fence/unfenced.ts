import { AsyncLocalStorage } from 'node:async_hooks';
import { assertIsFunction } from '../../core/arguments.js';

/** Shared with other copies of this package, because transactions are opened by code that knows only one of them. */
const UNFENCED = Symbol.for('nestjs-locked/Unfenced');

const storage = ((globalThis as { [UNFENCED]?: AsyncLocalStorage<boolean> })[UNFENCED] ??=
  new AsyncLocalStorage());

/**
 * Runs work whose transactions and statements need no fence although a lock is held: an audit row in a separate
 * transaction (REQUIRES_NEW) beside the one that the lock guards, or a read-only transaction. They claim nothing, so a
 * holder paused past its lease is not refused in them. The gate before COMMIT and the database time-outs still apply.
 *
 * A lazy query must be awaited inside: `unfenced(async () => await query)`.
 *
 * @example await unfenced(() => this.audit.write('stock taken')); // opens a separate transaction
 * @throws LockConfigError if `work` is not a function
 */
export function unfenced<T>(work: () => T): T {
  assertIsFunction(work, 'unfenced(() => …)');
  return storage.run(true, work);
}

/** Whether a transaction opened or statement sent here needs no fence. */
export function isUnfenced(): boolean {
  return storage.getStore() === true;
}
