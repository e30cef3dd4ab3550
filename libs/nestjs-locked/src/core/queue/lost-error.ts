import { LockLostError, type LockLostReason, LockStoreError } from '../lock.errors.js';

const WHY: Record<LockLostReason, string> = {
  expired:
    'its lease could not be renewed in time, was a fixed one that has ended, or may have ended while this machine was suspended',
  revoked: 'the key was taken away with forceRelease',
  deleted: 'Redis says that it is no longer ours; the key was deleted, overwritten or taken over',
  'max-hold': 'the work took longer than maxHoldMs',
  shutdown: 'the application was closed while the work still ran',
  'transaction-ended': 'the transaction that kept it has ended, but its body is still running',
  released: 'it was released',
};

/** The error for a hold that has ended. */
export function lostError(
  key: string,
  reason: LockLostReason,
  options?: ErrorOptions,
): LockLostError {
  const state = reason === 'released' ? 'is not held' : `was lost (${reason})`;
  const message = `Lock '${key}' ${state}: ${WHY[reason]}`;
  return new LockLostError(message, key, reason, options);
}

/** The error for a hold of which it is unknown whether it has ended. */
export function suspectError(key: string, options?: ErrorOptions): LockStoreError {
  return new LockStoreError(
    `Cannot tell whether lock '${key}' is still held: this machine may have been suspended, or its clock was set, and Redis has not confirmed the lease since then; call 'await lock.ensureRemaining(0)' to wait for that`,
    key,
    options,
  );
}

/** The error for a fencing token that cannot be raised while the key is moving to another server. */
export function noNumbersError(key: string): LockStoreError {
  const reason = 'Redis has renewed the lease, but could not reserve fencing tokens; try again';
  return new LockStoreError(`Cannot raise the fencing token of lock '${key}': ${reason}`, key);
}
