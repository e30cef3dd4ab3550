import { assertLockKey } from './lock-key.js';
import { LockKeyError } from './lock.errors.js';
import type { Keys } from './lock.options.js';

/**
 * Sorted by the bytes of their names, the same in every process whatever its language; each once.
 * @throws LockKeyError if there is no key, or one that is none
 */
export function inOrder(keys: Keys): string[] {
  const list = typeof keys === 'string' ? [keys] : (keys as string[]);
  if (!Array.isArray(list) || list.length === 0) {
    throw new LockKeyError(
      `Cannot lock ${Array.isArray(list) ? 'an empty list of keys: nothing would be locked' : String(keys)}; pass a key such as 'stock:42', or several`,
    );
  }
  for (const key of list) assertLockKey(key);
  return [...new Set(list)].sort(byBytes);
}

/** For sorting: the one order in which keys are taken, and claimed in a database. */
export function byBytes(a: string, b: string): number {
  return Buffer.compare(Buffer.from(a), Buffer.from(b));
}
