/**
 * A caller's hold on a key: the permission to do the work.
 *
 * What it promises: between the moment it is handed out and `release()`, no other holder of the same key has a
 * valid hold, as long as `isHeld` is true. What it cannot promise: that a process that was paused notices the end
 * of its lease before it acts. For that, check `fencingToken` where the data is.
 */
export interface Lock extends AsyncDisposable {
  /** The key that is locked, without the prefix: `stock:42`. */
  readonly key: string;
  /** Grows with every hold of this key, across all processes. Refuse writes that carry a smaller one. */
  readonly fencingToken: number;
  /** Aborts when the hold is lost; its `reason` is the `LockLostError`. Pass it to whatever can be cancelled. */
  readonly signal: AbortSignal;
  /** Reads the monotonic clock, no round trip: true while the lease is certainly ours. */
  readonly isHeld: boolean;
  /** Milliseconds for which the lease is certainly ours if it is not renewed any more; 0 when it is not. */
  remainingMs(): number;
  /**
   * Returns only if the lease is certainly ours; reads the clock, no round trip.
   * @throws LockLostError
   */
  assertHeld(): void;
  /**
   * Ends the hold. Idempotent: later calls give the first one's answer.
   * @returns false if the lock was no longer ours.
   * @throws LockStoreError if Redis did not answer: the lease then ends by itself.
   */
  release(): Promise<boolean>;
}
