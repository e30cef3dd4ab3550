import { LockLostError, type LockLostReason } from '../lock.errors.js';

const WHY: Record<LockLostReason, string> = {
  expired:
    'its lease could not be renewed in time, was a fixed one that has ended, or may have ended while this machine was suspended',
  stolen: 'Redis says that it is no longer ours; the key was deleted, overwritten or taken over',
  'max-hold': 'the work took longer than maxHoldMs',
  shutdown: 'the application was closed while the work still ran',
  'transaction-ended': 'the transaction that kept it is over, and its body still runs',
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
