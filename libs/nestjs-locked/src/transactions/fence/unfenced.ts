import { AsyncLocalStorage } from 'node:async_hooks';
import { assertIsFunction } from '../../core/arguments.js';

/** Shared with other copies of this package: transactions are opened by code that knows only one of them. */
const UNFENCED = Symbol.for('nestjs-locked/Unfenced');

const storage = ((globalThis as { [UNFENCED]?: AsyncLocalStorage<boolean> })[UNFENCED] ??=
  new AsyncLocalStorage());

/**
 * Runs work whose transactions and statements do without the fence, although a lock is held: an audit row in a
 * transaction of its own (REQUIRES_NEW) beside the one that the lock guards, or a read-only transaction. They claim
 * nothing, so that a holder that was paused past its lease is not refused in them. The gate before COMMIT and the
 * time-outs of the database stay as they are.
 *
 * A query that begins only when it is awaited must be awaited in it: `unfenced(async () => await query)`.
 *
 * @example await unfenced(() => this.audit.write('stock taken')); // opens a transaction of its own
 * @throws LockConfigError if it is no function
 */
export function unfenced<T>(work: () => T): T {
  assertIsFunction(work, 'unfenced(() => …)');
  return storage.run(true, work);
}

/** Whether what is opened or sent here and now does without the fence. */
export function isUnfenced(): boolean {
  return storage.getStore() === true;
}
