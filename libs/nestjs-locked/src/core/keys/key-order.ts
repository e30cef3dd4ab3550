import { LockKeyError } from '../lock.errors.js';
import type { LockKeys } from '../lock.options.js';
import { assertLockKey, notText } from './lock-key.js';

/**
 * The most keys that one call may request. One script takes them all or none, and Redis serves nobody else meanwhile:
 * about 10 µs per key on a slow core, so 5 ms.
 */
export const MAX_KEYS = 500;

/**
 * The keys without duplicates, sorted by their bytes: the same order in every process, in any language.
 * @throws LockKeyError if there is no key, if one of them is invalid, or if there are more than `MAX_KEYS`
 */
export function inOrder(asked: LockKeys): string[] {
  const list = typeof asked === 'string' ? [asked] : (asked as string[]);
  if (!Array.isArray(list)) throw notText(asked, 'a string, or a list of strings');
  if (list.length === 0) {
    throw new LockKeyError(
      "Cannot lock an empty list of keys: nothing would be locked; pass a key such as 'stock:42', or several",
    );
  }
  for (const key of list) assertLockKey(key);
  if (list.length === 1) return [...list];
  const keys = [...new Set(list)];
  if (keys.length > MAX_KEYS) {
    throw new LockKeyError(
      `Cannot lock ${keys.length} keys in one call: at most ${MAX_KEYS} are taken at once, so that Redis is not kept from others; lock what they have in common, such as the warehouse instead of its articles, or make several calls`,
    );
  }
  return keys.sort(byBytes);
}

/** Compares keys for sorting: the one order in which they are taken, and claimed in a database. */
export function byBytes(a: string, b: string): number {
  return Buffer.compare(Buffer.from(a), Buffer.from(b));
}
