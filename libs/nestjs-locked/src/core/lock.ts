/** The options of `detach`. */
export interface DetachOptions {
  /**
   * How long the lock lives on without a holder, in milliseconds, at least 500, and not less than is left of its
   * lease: until somebody adopts it, nobody has it, and nobody else gets it. If nobody does in that time, it is free.
   */
  readonly forMs: number;
}

/**
 * A caller's hold on a key: the permission to do the work.
 *
 * What it promises: between the moment it is handed out and `release()`, no other holder of the same key has a valid
 * hold, as long as `isHeld` is true. What it cannot promise is that a paused process notices the end of its lease
 * before it acts: check `fencingToken` where the data is stored.
 */
export interface Lock extends AsyncDisposable {
  /** The key that is locked, without the prefix: `stock:42`. Of several, the first in their order. */
  readonly key: string;
  /** All keys, in the order in which they were taken. */
  readonly keys: readonly string[];
  /**
   * Grows with every hold of `key`, across all processes. Refuse writes that carry a smaller token.
   * @throws LockConfigError of a permit: several hold the key at once, in no order that a token could tell
   */
  readonly fencingToken: number;
  /**
   * The fencing token of one of several keys.
   * @throws LockKeyError if it is not among `keys` · LockConfigError for a permit
   */
  fencingTokenOf(key: string): number;
  /**
   * Which of the permits for `key` this is: a number from 0 to `permits - 1` that no other holder has now, for as long
   * as `isHeld` is true. 0 without permits.
   */
  readonly slot: number;
  /** The slot of one of several keys. @throws LockKeyError if it is not among `keys` */
  slotOf(key: string): number;
  /**
   * Aborts when the hold is lost; its `reason` is the `LockLostError`. Pass it to whatever can be cancelled. Its
   * listeners run in the async context in which `signal` was first read, usually the work's.
   */
  readonly signal: AbortSignal;
  /**
   * Reads the clock, no round trip: true while the lease is certainly ours. After the machine was suspended, or its
   * clock was set, it can be false for a moment, and true again when Redis has confirmed the lease.
   */
  readonly isHeld: boolean;
  /** How long the lease is certainly ours without another renewal, in milliseconds; 0 if it is not ours. */
  remainingMs(): number;
  /**
   * Returns only if the lease is certainly ours; reads the clock, no round trip.
   * @throws LockLostError if it is no longer ours · LockStoreError if that is unknown: the machine may have been
   * suspended, or its clock was set, and Redis has not confirmed the lease since. `await ensureRemaining(0)` waits
   * for the confirmation
   */
  assertHeld(): void;
  /**
   * Returns when the lease is certainly ours for at least `ms` more milliseconds, prolonging it if needed.
   * @throws LockLostError if it is no longer ours · LockStoreError if Redis does not answer and too little is left
   */
  ensureRemaining(ms: number): Promise<void>;
  /**
   * Runs the work with this lock as the current one of its async context: nested calls for the same key join the hold
   * instead of waiting for it, and `LockService.current()` returns the lock. `withLock` does this itself.
   * @throws LockLostError if it is no longer held · LockStoreError as `assertHeld` · LockInTransactionError if the lock
   * was acquired after the open transaction began, which may have read unprotected data · LockConfigError if `work`
   * is not a function
   */
  run<T>(work: () => T | Promise<T>): Promise<T>;
  /**
   * Hands the lock over to whoever gets the text: the lock ends here, but lives on in Redis for `forMs`, even if this
   * process ends, and `LockService.adopt(text)` goes on under it, in any process, once. Until then, its `signal` does
   * not abort, and its `release` does nothing. Whoever has the text has the lock, so keep it where others cannot read
   * it. A second call gives the same text.
   *
   * @example await queue.add('pack', { lock: await lock.detach({ forMs: 60_000 }) });
   * @returns a text without characters that a URL would change
   * @throws LockLostError if it is no longer held · LockStoreError if Redis does not answer · LockInTransactionError if
   * a transaction under it is open · LockCommitUnknownError if the outcome of one is unknown · LockConfigError for a
   * wrong option, with `mode: 'shared'` or `holdAtLeastMs`, in a call that joined a call around it, or while calls that
   * joined it run. It is then held as before, if it was not lost
   */
  detach(options: DetachOptions): Promise<string>;
  /**
   * Ends the hold, once the calls that joined it and the transactions under it have ended. Idempotent: later calls give
   * the first one's answer. Called inside one of them, it does not wait for its end.
   * @returns false if the lock is known to have been lost before. A key deleted in Redis is noticed by a renewal or by
   * the release command, not when the lock is handed to the next caller in this process.
   * @throws LockStoreError if Redis did not answer, or has been away for longer than `failFastAfterMs`. The release is
   * repeated until the lease has expired
   */
  release(): Promise<boolean>;
}
