import { LockLostError, type LockLostReason, LockStoreError } from '../lock.errors.js';
import { lockName } from '../lock-name.js';
import type { ResolvedLockOptions } from '../resolved.options.js';

/** A hold, as the error about its end needs it. */
export interface EndedHold {
  readonly key: string;
  readonly label: string | undefined;
  readonly options: Pick<ResolvedLockOptions, 'leaseMs' | 'maxHoldMs' | 'renew'>;
}

/** Each says why, and what to do. */
const WHY: Record<LockLostReason, (options: EndedHold['options']) => string> = {
  expired: ({ renew, leaseMs }) =>
    renew
      ? `its lease could not be renewed in time, or may have ended while this machine was suspended; Redis was away, or the event loop was blocked, for longer than leaseMs (${leaseMs}) allows; end the work when lock.signal aborts, or set a longer leaseMs`
      : `its fixed lease has ended, leaseMs (${leaseMs}) after it was requested; set a longer one, or prolong it with ensureRemaining`,
  revoked: () =>
    'an operator took the key away with forceRelease; end the work when lock.signal aborts',
  deleted: () =>
    'Redis says that it is no longer ours; the key was deleted, overwritten or taken over, or Redis has lost it; look for DEL, FLUSHALL, evictions and failovers',
  'max-hold': ({ maxHoldMs }) =>
    `the work took longer than maxHoldMs (${maxHoldMs}), or the lock of acquire was not released; release it in a finally block, end the work when lock.signal aborts, or set a longer one`,
  shutdown: () =>
    'the application was closed while the work still ran, or the lock of acquire was not released; release it in a finally block, end the work when lock.signal aborts, or set a longer shutdownMs',
  'transaction-ended': () =>
    'the transaction that kept it has ended, but its body is still running; await in the body what it starts',
  detached: () =>
    'it was detached, and whoever adopts it goes on under it; do here only what needs no lock',
  released: () => 'it was released; acquire it again, or use it before its release',
};

/** The error for a hold that has ended. */
export function lostError(
  hold: EndedHold,
  reason: LockLostReason,
  options?: ErrorOptions,
): LockLostError {
  const isOurDoing = reason === 'released' || reason === 'detached';
  const state = isOurDoing ? 'is not held' : `was lost (${reason})`;
  const message = `Lock ${lockName(hold)} ${state}: ${WHY[reason](hold.options)}`;
  return new LockLostError(message, hold.key, reason, options);
}

/** A hold of which it is unknown whether it has ended. */
interface SuspectHold {
  readonly key: string;
  readonly since: number;
  /** Whether the backup of its lease was told that it is not ours. */
  readonly isRefused: boolean;
}

/** The error for a hold of which it is unknown whether it has ended. */
export function suspectError(
  { key, since, isRefused }: SuspectHold,
  options?: ErrorOptions,
): LockStoreError {
  const why = isRefused
    ? 'Redis told the worker thread that the lease is no longer ours, and has not told this thread yet'
    : 'this machine may have been suspended, or its clock was set, and Redis has not confirmed the lease since then';
  return new LockStoreError(
    `Cannot tell whether lock '${key}' is still held: ${why}; call 'await lock.ensureRemaining(0)' to wait for that`,
    key,
    options,
    since < Infinity,
  );
}

/**
 * The error for a fencing token that cannot be raised.
 * @param cause why the store did not answer; undefined if it did, while the key is moving to another server
 */
export function notRaisedError(key: string, cause?: LockStoreError): LockStoreError {
  const reason =
    cause?.message ??
    'Redis has renewed the lease, but could not reserve fencing tokens; try again';
  const message = `Cannot raise the fencing token of lock '${key}': ${reason}`;
  return new LockStoreError(message, key, { cause }, true);
}
