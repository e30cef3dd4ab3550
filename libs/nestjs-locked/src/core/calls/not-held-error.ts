import { LockNotHeldError } from '../lock.errors.js';

/**
 * The error for code that relies on a lock where none is held.
 *
 * @param key the missing one; undefined if the code does not run under any lock
 * @param held the keys that the async context does hold
 * @param hasEnded whether the code belongs to work under this key that has ended
 */
export function notHeldError(
  key: string | undefined,
  held: readonly string[],
  hasEnded: boolean,
): LockNotHeldError {
  const what = key === undefined ? 'No lock is held here' : `Lock '${key}' is not held here`;
  return new LockNotHeldError(`${what}: ${reason(held, hasEnded)}`, key);
}

function reason(held: readonly string[], hasEnded: boolean): string {
  if (hasEnded) {
    return 'the work that this code belongs to has ended, and its lock was released or detached; await this code in the work';
  }
  if (held.length > 0) {
    const others = held.map((other) => `'${other}'`).join(', ');
    return `this code runs under ${others} only; lock this key too, or name one of those`;
  }
  return 'this code does not belong to the work of withLock, @Locked or lock.run of this LockService, or has lost the async context; call it in that work (a lock of acquire counts only inside lock.run)';
}
