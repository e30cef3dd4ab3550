import type { LockHolder, LockWait } from './lock-info.js';
import { shownValue } from './runtime/shown-value.js';

/** What happened, as a stable string to compare with. */
export type LockErrorCode =
  | 'LOCK_NOT_ACQUIRED'
  | 'LOCK_QUEUE_FULL'
  | 'LOCK_DEADLOCK'
  | 'LOCK_ABORTED'
  | 'LOCK_LOST'
  | 'LOCK_NOT_HELD'
  | 'LOCK_NOT_ADOPTED'
  | 'LOCK_FENCED'
  | 'LOCK_COMMIT_UNKNOWN'
  | 'LOCK_IN_TRANSACTION'
  | 'LOCK_STORE_FAILED'
  | 'LOCK_KEY_INVALID'
  | 'LOCK_CONFIG_INVALID';

/** Marks our errors across copies of this package (ESM and CommonJS may meet in one process). */
const BRAND = Symbol.for('nestjs-locked/LockError');

/**
 * The base class of every error this library throws. `instanceof` compares a brand and `code`, so it also recognizes an
 * error made by another copy of the package.
 */
export abstract class LockError extends Error {
  /** The name of its class, in minified code as well. */
  abstract override name: string;

  /** Which error this is, as a string to compare with. */
  abstract readonly code: LockErrorCode;

  /** The key in question, where there is one. */
  readonly key: string | undefined;

  constructor(message: string, key?: string, options?: ErrorOptions) {
    super(message, options);
    this.key = key;
    Object.defineProperty(this, BRAND, { value: true });
  }

  /** Makes `instanceof` compare brand and `code`. @hidden */
  static override [Symbol.hasInstance](value: unknown): boolean {
    if (typeof value !== 'object' || value === null || !(BRAND in value)) return false;
    if (Object.prototype.isPrototypeOf.call(this.prototype, value)) return true;
    const ownCode = CODE_OF_CLASS.get(this);
    return (
      this === LockError || (ownCode !== undefined && 'code' in value && value.code === ownCode)
    );
  }
}

/**
 * Somebody else held the lock for the whole wait or, with the fence, the transaction of an earlier holder was still
 * open when it ended. Nothing is broken: retry later, or skip.
 */
export class LockNotAcquiredError extends LockError {
  override name = 'LockNotAcquiredError';
  readonly code = 'LOCK_NOT_ACQUIRED';

  constructor(
    message: string,
    key: string,
    /** How long the caller waited, in milliseconds. */
    readonly waitedMs: number,
    /**
     * Who held it when the wait ended. A call of this process is always named. Undefined if another process has it and
     * this was a single try (`waitMs: 0`), if Redis did not answer within 250 ms, or if another kind of client has it.
     */
    readonly holder?: LockHolder,
  ) {
    super(message, key);
  }
}

/**
 * So many calls of this process wait for the key already that this one was not let in (`maxWaiters`). It has waited for
 * nothing, and says nothing about who has the key: `onBusy` does not apply.
 */
export class LockQueueFullError extends LockError {
  override name = 'LockQueueFullError';
  readonly code = 'LOCK_QUEUE_FULL';

  constructor(
    message: string,
    key: string,
    /** Who has the key, as in `LockNotAcquiredError`. */
    readonly holder?: LockHolder,
  ) {
    super(message, key);
  }
}

/**
 * The wait would never have ended: calls that hold locks wait for each other in a ring, in this process or in several.
 * The youngest of these waits ends with this error. Let it end the outer call too, so that its locks are released and
 * the others go on; then the whole may be tried again. Take the keys in one call, or nest them in the same order
 * everywhere, to prevent it.
 */
export class LockDeadlockError extends LockError {
  override name = 'LockDeadlockError';
  readonly code = 'LOCK_DEADLOCK';

  constructor(
    message: string,
    key: string,
    /** The waits, this one first: each is for a key that the next one holds, the last for one that the first holds. */
    readonly ring: readonly LockWait[],
  ) {
    super(message, key);
  }
}

/** The wait was cancelled: by the caller's signal, or because the application is shutting down. */
export class LockAbortedError extends LockError {
  override name = 'LockAbortedError';
  readonly code = 'LOCK_ABORTED';
}

/**
 * Why a hold ended before its work did; 'detached' and 'released' mean that the lock was used after its end here.
 */
export type LockLostReason =
  | 'expired'
  | 'revoked'
  | 'deleted'
  | 'max-hold'
  | 'shutdown'
  | 'transaction-ended'
  | 'detached'
  | 'released';

/**
 * We held the lock and no longer do. Work done since may overlap with that of another holder, even if we released the
 * lock ourselves.
 */
export class LockLostError extends LockError {
  override name = 'LockLostError';
  readonly code = 'LOCK_LOST';

  constructor(
    message: string,
    key: string,
    /**
     * `expired`: the lease could not be renewed in time · `revoked`: `forceRelease` took the key away · `deleted`: the
     * store says that the key is no longer ours, because it was deleted, overwritten or taken over, or because the
     * message of a forced release was lost · `max-hold`: the work took longer than `maxHoldMs` · `shutdown`: the
     * application closed · `transaction-ended`: the transaction that kept the lock has ended while its body still runs
     * · `detached`, `released`: nothing was lost, but the lock was used after `detach()`, or after its release; only
     * from `assertHeld`, `ensureRemaining`, `run` and `detach`, never on the signal.
     */
    readonly reason: LockLostReason,
    options?: ErrorOptions,
  ) {
    super(message, key, options);
  }
}

/**
 * `LockService.assertHeld` was called where no lock is held: outside the work of `withLock`, `@Locked` and `lock.run`,
 * after its end, or for a key that the work has not locked. This is a mistake in the code, and so a class of its own:
 * nobody else has the lock, as with `LockNotAcquiredError`, and none was lost, as with `LockLostError`, so there is
 * nothing to repeat or to undo.
 */
export class LockNotHeldError extends LockError {
  override name = 'LockNotHeldError';
  readonly code = 'LOCK_NOT_HELD';
}

/**
 * `LockService.adopt` did not get the lock that was handed over: its time is over, somebody has adopted it before, an
 * operator took it away, or the text is not one of `detach()`. The work was not run. A lock adopted before has perhaps
 * been released since: take the lock anew, and check what has been done under it.
 */
export class LockNotAdoptedError extends LockError {
  override name = 'LockNotAdoptedError';
  readonly code = 'LOCK_NOT_ADOPTED';
}

/**
 * The database refused the fencing token: a newer holder was there. Nothing of the transaction was written.
 */
export class LockFencedError extends LockError {
  override name = 'LockFencedError';
  readonly code = 'LOCK_FENCED';

  constructor(
    message: string,
    key: string,
    /** The token that was refused. */
    readonly fencingToken: number,
    /** The highest token the database has seen. */
    readonly newestToken: number,
  ) {
    super(message, key);
  }
}

/**
 * The database did not answer the COMMIT of a transaction under the lock: it may or may not have been committed. Check
 * the data before you repeat anything. `cause` is the driver's error, if there was one. A later transaction under the
 * same hold is refused with this error too, because it might repeat committed work.
 */
export class LockCommitUnknownError extends LockError {
  override name = 'LockCommitUnknownError';
  readonly code = 'LOCK_COMMIT_UNKNOWN';
}

/** A lock was requested inside an open database transaction, where that is not safe. The message lists the ways out. */
export class LockInTransactionError extends LockError {
  override name = 'LockInTransactionError';
  readonly code = 'LOCK_IN_TRANSACTION';
}

/** The store (Redis) did not answer, or refused. Whether the lock is held is **unknown**. `cause` has the reason. */
export class LockStoreError extends LockError {
  override name = 'LockStoreError';
  readonly code = 'LOCK_STORE_FAILED';

  constructor(
    message: string,
    key?: string,
    options?: ErrorOptions,
    /**
     * Whether the work under the lock had begun, so that it may be partly done: true from `assertHeld`,
     * `ensureRemaining`, `run` and `release` of a lock, false from a call that did not get its lock.
     */
    readonly workBegan: boolean = false,
  ) {
    super(message, key, options);
  }
}

/** The key cannot be built from these arguments. Thrown before any Redis traffic. */
export class LockKeyError extends LockError {
  override name = 'LockKeyError';
  readonly code = 'LOCK_KEY_INVALID';
}

/** An option or a decorator is used wrongly. Thrown at start-up, or at the latest before any Redis traffic. */
export class LockConfigError extends LockError {
  override name = 'LockConfigError';
  readonly code = 'LOCK_CONFIG_INVALID';
}

const CODE_OF_CLASS = new Map<unknown, LockErrorCode>([
  [LockNotAcquiredError, 'LOCK_NOT_ACQUIRED'],
  [LockQueueFullError, 'LOCK_QUEUE_FULL'],
  [LockDeadlockError, 'LOCK_DEADLOCK'],
  [LockAbortedError, 'LOCK_ABORTED'],
  [LockLostError, 'LOCK_LOST'],
  [LockNotHeldError, 'LOCK_NOT_HELD'],
  [LockNotAdoptedError, 'LOCK_NOT_ADOPTED'],
  [LockFencedError, 'LOCK_FENCED'],
  [LockCommitUnknownError, 'LOCK_COMMIT_UNKNOWN'],
  [LockInTransactionError, 'LOCK_IN_TRANSACTION'],
  [LockStoreError, 'LOCK_STORE_FAILED'],
  [LockKeyError, 'LOCK_KEY_INVALID'],
  [LockConfigError, 'LOCK_CONFIG_INVALID'],
]);

/**
 * The error for an invalid option.
 * @param rule what is allowed: `must be true or false`
 */
export function invalidOption(name: string, value: unknown, rule: string): LockConfigError {
  return new LockConfigError(`Invalid option ${name}: ${shownValue(value)} ${rule}`);
}
