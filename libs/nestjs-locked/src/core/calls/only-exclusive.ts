import { LockConfigError } from '../lock.errors.js';
import type { ResolvedLockOptions } from '../resolved.options.js';
import type { LockStore } from '../store/lock-store.js';

/** @throws LockConfigError if the store has keys only for one call at a time */
export function assertMayShare(
  { onlyExclusive }: Pick<LockStore, 'onlyExclusive'>,
  { mode }: Pick<ResolvedLockOptions, 'mode'>,
  key: string,
): void {
  if (onlyExclusive === undefined) return;
  const what = mode === 'permit' ? 'permits' : 'mode';
  throw new LockConfigError(
    `Cannot lock '${key}' with ${what}: with ${onlyExclusive}, a key has one holder; leave ${what} out, or use a lock module of its own for it`,
    key,
  );
}

/** @throws LockConfigError if the store lets no other process go on with a lease */
export function assertMayHandOver(
  { onlyExclusive }: Pick<LockStore, 'onlyExclusive'>,
  action: 'detach' | 'adopt',
  key: string | undefined,
): void {
  if (onlyExclusive === undefined) return;
  throw new LockConfigError(
    `Cannot ${action} lock '${key}': with ${onlyExclusive}, a lock ends where it was taken; release it there, and take it again elsewhere, or use a lock module of its own for it`,
    key,
  );
}
