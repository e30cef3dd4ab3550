import type { LockHolder } from './lock-info.js';
import type { InsideTransaction, TransactionOptions } from './transaction.options.js';

/** One key, or several that are taken together. */
export type LockKeys = string | readonly string[];

/** What one call may ask for. Everything is optional; the module's options are the defaults. */
export interface LockOptions {
  /** How long to wait for the lock, in milliseconds; 0 = one try, `Infinity` allowed. @default 10_000 */
  readonly waitMs?: number;
  /**
   * How long the lock outlives a crash, in milliseconds, at least 500. It is renewed while the work runs, so the work
   * may take longer. A shorter lease frees a dead holder's key sooner; with a longer one, a slow Redis does less harm.
   * A lock that another process has handed over lasts for a tenth of the module's `leaseMs` at least, and never less
   * than a second.
   * @default 30_000
   */
  readonly leaseMs?: number;
  /**
   * How long the work may hold the lock at most, in milliseconds, `Infinity` allowed. After that, the signal aborts
   * with reason 'max-hold', and the lease is not renewed any more: a handler that hangs does not keep a key for ever.
   * @default 600_000
   */
  readonly maxHoldMs?: number;
  /**
   * false: a fixed lease. It ends `leaseMs` after it was asked for, however long the work takes, unless
   * `ensureRemaining` prolongs it; it is shared with no other call. @default true
   */
  readonly renew?: boolean;
  /**
   * Keeps the key taken until this long after the lock was acquired, in milliseconds, even if the work is done sooner:
   * for jobs that every replica starts at about the same time and only one should run. After a crash, the key is free
   * when the lease ends. @default 0
   */
  readonly holdAtLeastMs?: number;
  /** Shown by `inspect` while the lock is held: which job or request has the lock. At most 200 characters. */
  readonly label?: string;
  /**
   * false: ask for a lock of its own even where this async context holds the key already (and wait for ever if the
   * holder waits for this call). What a transaction has taken for the calls inside of it is joined, unless a call
   * around this one has it. @default true
   */
  readonly reentrant?: boolean;
  /** What to do if the lock is asked for inside an open transaction. @default the module's, 'reject' */
  readonly insideTransaction?: InsideTransaction;
  /** Cancels the wait (not the work): the call rejects with `LockAbortedError`. */
  readonly signal?: AbortSignal;
}

/** What `onBusy` is told when somebody else held the lock for the whole wait. */
export interface BusyContext {
  /** The key that was not free. */
  readonly key: string;
  /** How long the call has waited, in milliseconds. */
  readonly waitedMs: number;
  /** Who has it, as in `LockNotAcquiredError`. */
  readonly holder: LockHolder | undefined;
}

/** What a call gives when somebody else held the lock for the whole wait. */
export type OnBusy<Instead = unknown> = 'throw' | 'skip' | ((busy: BusyContext) => Instead);

/** The result that takes the place of the work's: none ('throw'), undefined ('skip'), or what the function gives. */
export type GivenWhenBusy<Busy> = Busy extends 'skip'
  ? undefined
  : Busy extends (busy: BusyContext) => infer Instead
    ? Awaited<Instead>
    : never;

/**
 * What `withLock` may be asked for: the options of every call, and what to do if the lock is not free in time.
 *
 * @typeParam Busy the kind of `onBusy`, which decides what the call may give
 */
export interface WithLockOptions<Busy extends OnBusy = OnBusy> extends LockOptions {
  /**
   * What to do when somebody else held the lock for the whole wait: 'throw' LockNotAcquiredError, 'skip' the work
   * (the result is undefined), or call a function whose result takes the place of the work's. Decided before the
   * work starts: an error inside of it never counts as busy.
   *
   * Where `@Locked` gives an Observable or an async iterable, 'skip' ends it without a value. The result of a function
   * takes its place: an Observable or iterable of the same kind is passed through, any other value is emitted as the
   * only one, and undefined as none.
   * @default 'throw'
   */
  readonly onBusy?: Busy;
}

/** The options of a whole `LockService`: defaults for every call, and what can only be set for all of them. */
export interface LockServiceOptions extends TransactionOptions {
  /** Default of every call. @default 10_000 */
  readonly waitMs?: number;
  /** Default of every call. @default 30_000 */
  readonly leaseMs?: number;
  /** Default of every call. @default 600_000 */
  readonly maxHoldMs?: number;
  /**
   * How many calls of this process may follow each other without asking Redis once another process waits for the key:
   * those that wait already, for 100 ms at most, and others for 20 ms. 0 = strict order of arrival across processes.
   * @default 32
   */
  readonly localHandovers?: number;
  /**
   * Keeps an unused lease for this long, in milliseconds, in case this process wants the same key again; it is released
   * at once when another process asks. This saves both round trips of a key that one process uses often. Meanwhile, a
   * single try (`waitMs: 0`) of another process finds the key busy. @default 0
   */
  readonly lingerMs?: number;
  /**
   * false: `withLock` and `@Locked` return one round trip earlier, before Redis has answered the release.
   * @default true
   */
  readonly awaitRelease?: boolean;
  /**
   * How long Redis may be away before calls that would have to wait for it fail at once, in milliseconds; 0 = at once,
   * `Infinity` = never, then they wait as long as `waitMs` says. Calls that wait already go on waiting. @default 2_000
   */
  readonly failFastAfterMs?: number;
}
