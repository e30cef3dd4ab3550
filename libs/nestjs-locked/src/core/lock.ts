/**
 * A caller's hold on a key: the permission to do the work.
 *
 * What it promises: between the moment it is handed out and `release()`, no other holder of the same key has a
 * valid hold, as long as `isHeld` is true. What it cannot promise: that a process that was paused notices the end
 * of its lease before it acts. For that, check `fencingToken` where the data is.
 */
export interface Lock extends AsyncDisposable {
  /** The key that is locked, without the prefix: `stock:42`. Of several, the first in their order. */
  readonly key: string;
  /** All keys, in the order in which they were taken. */
  readonly keys: readonly string[];
  /** Grows with every hold of `key`, across all processes. Refuse writes that carry a smaller one. */
  readonly fencingToken: number;
  /** The fencing token of one of several keys. @throws LockKeyError if it is not among `keys` */
  fencingTokenOf(key: string): number;
  /**
   * Aborts when the hold is lost; its `reason` is the `LockLostError`. Pass it to whatever can be cancelled. Its
   * listeners run in the async context in which `signal` was first read: as a rule that of the work.
   */
  readonly signal: AbortSignal;
  /**
   * Reads the clock, no round trip: true while the lease is certainly ours. After the machine was suspended, or its
   * clock was set, it can be false for a moment, and true again when Redis has confirmed the lease.
   */
  readonly isHeld: boolean;
  /** Milliseconds for which the lease is certainly ours if it is not renewed any more; 0 when it is not. */
  remainingMs(): number;
  /**
   * Returns only if the lease is certainly ours; reads the clock, no round trip.
   * @throws LockLostError if it is no longer ours · LockStoreError if nobody knows: the machine may have been
   * suspended, or its clock was set, and Redis has not confirmed the lease since then. `await
   * ensureRemaining(0)` waits for that
   */
  assertHeld(): void;
  /**
   * Returns when the lease is certainly ours for at least `ms` more milliseconds, prolonging it if needed.
   * @throws LockLostError if it is no longer ours · LockStoreError if Redis does not answer and too little is left
   */
  ensureRemaining(ms: number): Promise<void>;
  /**
   * Runs the work with this lock as the current one of its async context: calls in it that ask for the same key join
   * the hold instead of waiting for it, and `LockService.current()` finds the lock. `withLock` does this on its own.
   * @throws LockLostError if it is no longer held · LockStoreError as `assertHeld` · LockInTransactionError if it was
   * acquired after the open transaction had begun, which may have read before · LockConfigError for what is no function
   */
  run<T>(work: () => T | Promise<T>): Promise<T>;
  /**
   * Ends the hold, once the calls that joined it and the transactions under it have ended. Idempotent:
   * later calls give the first one's answer. Inside such a call or transaction, the answer does not wait for its end.
   * @returns false if the lock is known to have been ours no longer. A key that somebody has deleted in Redis is
   * noticed by a renewal or by the release itself, not when the lock is only passed on to the next caller here.
   * @throws LockStoreError if Redis did not answer, or is away for so long that calls fail at once. The release is
   * repeated until the lease has ended on its own
   */
  release(): Promise<boolean>;
}
