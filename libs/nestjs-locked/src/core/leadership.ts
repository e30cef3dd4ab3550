import type { LockLostReason } from './lock.errors.js';
import type { Lock } from './lock.js';
import type { LockOptions } from './lock.options.js';

/**
 * What a leader does. It runs while this process leads, and should last as long: when it returns, the process resigns.
 *
 * @param signal aborts when the work must end. Its `reason` is a `LockLostError` if the lock was lost, so that another
 * process may lead already, and a `LockAbortedError` if `resign` was called or the application is closing: the lock is
 * then held until the work has ended
 * @param lock the lock of the leader, as `withLock` gives it: with `fencingToken` and `assertHeld()`
 */
export type LeaderWork = (signal: AbortSignal, lock: Lock) => Promise<void>;

/** The options of `lead`. */
export interface LeadOptions extends Pick<LockOptions, 'label'> {
  /**
   * How long the lock outlives a crash of the leader, in milliseconds, at least 500: another process takes over within
   * this time. It is renewed while the work runs. @default the module's, 30_000
   */
  readonly leaseMs?: number;
  /**
   * How long one process may lead without a break, in milliseconds, `Infinity` allowed. After that, the signal aborts
   * with reason 'max-hold', and the lock ends with its lease: a work that hangs does not keep all others out. The
   * module's `maxHoldMs` does not count. @default Infinity
   */
  readonly maxHoldMs?: number;
}

/**
 * Why a process no longer leads: that of a `LockLostError`, or
 *
 * - `resigned`: its work has returned, or `resign` was called
 * - `failed`: its work has thrown
 * - `closed`: the application is closing
 */
export type DeposedReason = LockLostReason | 'resigned' | 'failed' | 'closed';

/** The campaign of this process for one key, which `LockService.lead` has begun. */
export interface Leadership extends AsyncDisposable {
  /** The key for which it campaigns. */
  readonly key: string;
  /**
   * Reads the clock, no round trip: true while the work runs and the lock is certainly held. As with `Lock.isHeld`, it
   * can be false for a moment after the machine was suspended.
   */
  readonly isLeader: boolean;
  /**
   * Resolves when the campaign has ended, after the work: the work has returned while it held the lock, `resign` was
   * called, or the application was closed. It never rejects: what fails is logged, and the process campaigns again.
   */
  readonly done: Promise<void>;
  /**
   * Ends the campaign: a leader's signal aborts, its lock is released when its work has ended, and another process
   * takes over.
   * @returns when the campaign has ended; called inside the work, at once, because the work would wait for itself
   */
  resign(): Promise<void>;
}
