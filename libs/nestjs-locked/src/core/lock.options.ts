import type { LockHolder } from './lock-info.js';
import type { LockMode, ModeOfKey, PermitsOfKey } from './lock-mode.js';
import type { InsideTransaction, TransactionOptions } from './transaction.options.js';

/** One key, or several that are taken together. */
export type LockKeys = string | readonly string[];

/** What one call may ask for. Everything is optional; the module's options are the defaults. */
export interface LockOptions {
  /** How long to wait for the lock, in milliseconds; 0 = one try, `Infinity` allowed. @default 10_000 */
  readonly waitMs?: number;
  /**
   * How many calls of this process may wait for the key. If as many do, this call fails at once with
   * `LockQueueFullError`, so that a key that is stuck does not keep every request of the process in memory. At least 1,
   * `Infinity` allowed. Single tries do not wait. @default Infinity
   */
  readonly maxWaiters?: number;
  /**
   * How long the lock outlives a crash, in milliseconds, at least 500. It is renewed while the work runs, so the work
   * may take longer. A shorter lease frees a dead holder's key sooner; a longer one tolerates a slower Redis. A lock
   * handed over by another process lasts at least a tenth of the module's `leaseMs`, and never less than a second.
   * @default 30_000
   */
  readonly leaseMs?: number;
  /**
   * How long the lock outlives a crash until it is renewed for the first time, in milliseconds, at least 3,000. That
   * renewal is due after a third of it, and then the lock has its whole `leaseMs`. So a key that is held shortly is
   * free sooner if its holder dies; a process that stands still for two thirds of this time may lose its lock.
   *
   * 'learned': four times the longest stall of this service, for keys that are usually held for less than a second,
   * once a day was observed. Until then, and for all other keys, `leaseMs`.
   *
   * Has no effect on readers, fixed leases, `holdAtLeastMs` and adopted locks. A call with a `leaseMs` of its own uses
   * only a `firstLeaseMs` of its own.
   * @default `leaseMs`
   */
  readonly firstLeaseMs?: number | 'learned';
  /**
   * How long the work may hold the lock at most, in milliseconds, `Infinity` allowed. After that, the signal aborts
   * with reason 'max-hold' and renewal stops: a hanging handler does not keep a key for ever.
   * @default 600_000
   */
  readonly maxHoldMs?: number;
  /**
   * 'shared': any number of readers hold the key at once, in all processes, but never beside an exclusive holder. Once
   * somebody waits for the key exclusively, later readers wait behind. A function says it for each of several keys.
   * @default 'exclusive'
   */
  readonly mode?: LockMode | ModeOfKey;
  /**
   * At most so many hold the key at once, in all processes: from 1 to 1,000. They take their turns in order of arrival,
   * and never beside an exclusive holder or a reader. A function says it for each of several keys, and undefined for
   * one that the call wants alone. Not together with `mode`. A permit has no fencing token, but a `lock.slot`.
   * @default none: one holder, or as `mode` says
   */
  readonly permits?: number | PermitsOfKey;
  /** How many permits this call takes, from 1 to `permits`. @default 1 */
  readonly weight?: number;
  /**
   * false: a fixed lease. It ends `leaseMs` after it was requested, however long the work takes, unless
   * `ensureRemaining` prolongs it; only nested calls share it. @default true
   */
  readonly renew?: boolean;
  /**
   * Keeps the key taken for at least this many milliseconds after the lock was acquired, even if the work ends sooner
   * or throws: for jobs that every replica starts at about the same time and only one should run. After a crash, the
   * key is free when the lease ends. @default 0
   */
  readonly holdAtLeastMs?: number;
  /**
   * Which job or request has the lock, for `inspect`, errors and the log. At most 200 characters. @default the method
   * with `@Locked`, or the handler under a `LockInterceptor`: `StockService.take`
   */
  readonly label?: string;
  /**
   * false: requests a separate lock even if this async context already holds the key (and waits for ever if the holder
   * waits for this call). A lock that a transaction took for the calls inside it is joined all the same, unless an
   * enclosing call holds it. @default true
   */
  readonly reentrant?: boolean;
  /** What to do if the lock is requested inside an open transaction. @default the module's, 'reject' */
  readonly insideTransaction?: InsideTransaction;
  /** Cancels the wait (not the work): the call rejects with `LockAbortedError`. */
  readonly signal?: AbortSignal;
}

/** The options of `adopt`; the module's are the defaults. */
export interface AdoptOptions extends Pick<LockOptions, 'leaseMs' | 'maxHoldMs' | 'renew'> {
  /** Which job or request goes on under the lock, for `inspect`, errors and the log. @default that of the lock */
  readonly label?: string;
}

/** What an `onBusy` function receives when somebody else held the lock for the whole wait. */
export interface BusyContext {
  /** The key that was not free. */
  readonly key: string;
  /** How long the call has waited, in milliseconds. */
  readonly waitedMs: number;
  /** Who holds it, as in `LockNotAcquiredError`. */
  readonly holder: LockHolder | undefined;
}

/** What a call does when somebody else held the lock for the whole wait. */
export type OnBusy<Instead = unknown> = 'throw' | 'skip' | ((busy: BusyContext) => Instead);

/** The result that replaces the work's: none ('throw'), undefined ('skip'), or what the function returns. */
export type GivenWhenBusy<Busy> = Busy extends 'skip'
  ? undefined
  : Busy extends (busy: BusyContext) => infer Instead
    ? Awaited<Instead>
    : never;

/**
 * The options of `withLock`: those of every call, and what to do if the lock is not free in time.
 *
 * @typeParam Busy the kind of `onBusy`, which decides what the call may return
 */
export interface WithLockOptions<Busy extends OnBusy = OnBusy> extends LockOptions {
  /**
   * What to do when somebody else held the lock for the whole wait: 'throw' LockNotAcquiredError, 'skip' the work (the
   * result is undefined), or call a function whose result replaces the work's. This is decided before the work starts:
   * an error inside the work never counts as busy.
   *
   * If `@Locked` returns an Observable or an async iterable, 'skip' completes it without a value. The result of a
   * function replaces it: an Observable or iterable of the same kind is passed through, any other value is emitted as
   * the only one, and undefined emits nothing.
   * @default 'throw'
   */
  readonly onBusy?: Busy;
}

/** The options of a `LockService`: defaults for every call, and settings that apply to all of them. */
export interface LockServiceOptions extends TransactionOptions {
  /** Default of every call. @default 10_000 */
  readonly waitMs?: number;
  /** Default of every call. @default Infinity */
  readonly maxWaiters?: number;
  /** Default of every call. @default 30_000 */
  readonly leaseMs?: number;
  /** Default of every call without a `leaseMs`; at most `leaseMs`. @default `leaseMs` */
  readonly firstLeaseMs?: number | 'learned';
  /** Default of every call. @default 600_000 */
  readonly maxHoldMs?: number;
  /**
   * How many calls of this process may take the lock in a row, without a round trip to Redis, once another process
   * waits for the key: calls that were already waiting, for 100 ms at most, and later ones for 20 ms. 0 = strict order
   * of arrival across processes.
   * @default 32
   */
  readonly localHandovers?: number;
  /**
   * Keeps an unused lease for this long, in milliseconds, in case this process wants the same key again; it is released
   * at once when another process asks. Saves both round trips for a key that one process uses often. Meanwhile, a
   * single try (`waitMs: 0`) by another process finds the key busy once: it makes this process release the lease.
   *
   * An unused lease is not renewed, so it never lasts longer than it did when its last call ended; `lingerMs` may not
   * be greater than `leaseMs`. A call with `onBusy`, `holdAtLeastMs` or `renew: false` leaves no unused lease.
   * @default 0
   */
  readonly lingerMs?: number;
  /**
   * false: `withLock` and `@Locked` return one round trip earlier, before Redis has answered the release.
   * @default true
   */
  readonly awaitRelease?: boolean;
  /**
   * How long Redis may be away, in milliseconds, before calls that need it fail at once; 0 = immediately, `Infinity` =
   * never, so that they wait for `waitMs`. Calls already waiting keep waiting. @default 2_000
   */
  readonly failFastAfterMs?: number;
}
