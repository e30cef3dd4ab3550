import { assertKnownOptions, type KnownOptions } from './known-options.js';
import { invalidOption, LockConfigError } from './lock.errors.js';
import type { LockHolder } from './lock-info.js';
import {
  assertInsideTransaction,
  type InsideTransaction,
  type ResolvedTransactionOptions,
  resolveTransactionOptions,
  type TransactionOptions,
} from './transaction.options.js';

/** One key, or several that are taken together. */
export type Keys = string | readonly string[];

/** What one call may ask for. Everything is optional; the module's options are the defaults. */
export interface LockOptions {
  /** How long to wait for the lock, in milliseconds; 0 = one try, `Infinity` allowed. @default 10_000 */
  readonly waitMs?: number;
  /**
   * How long the lock outlives a crash, in milliseconds, at least 500. It is renewed while the work runs, so the work
   * may take longer. A shorter lease frees a dead holder's key sooner; with a longer one, a slow Redis does less harm.
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
   * false: a fixed lease. It ends `leaseMs` after it was asked for, however long the work takes, unless `ensure`
   * prolongs it; it is shared with no other call. @default true
   */
  readonly renew?: boolean;
  /**
   * Keeps the key taken until this long after the lock was acquired, in milliseconds, even if the work is done sooner:
   * for jobs that every replica starts at about the same time and only one should run. After a crash, the key is free
   * when the lease ends. @default 0
   */
  readonly holdAtLeastMs?: number;
  /** Shown by `inspect`, for an hour: which job or request has the lock. At most 200 characters. */
  readonly label?: string;
  /**
   * false: ask for a lock of its own even where this async context holds the key already (and wait for ever if the
   * holder waits for this call). @default true
   */
  readonly reentrant?: boolean;
  /** What to do if the lock is asked for inside an open transaction. @default the module's, 'reject' */
  readonly insideTransaction?: InsideTransaction;
  /** Cancels the wait (not the work): the call rejects with `LockAbortedError`. */
  readonly signal?: AbortSignal;
}

/** What `onBusy` is told when somebody else held the lock for the whole wait. */
export interface BusyContext {
  readonly key: string;
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

/** @typeParam Busy the kind of `onBusy`, which decides what the call may give */
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
   * How many calls of this process may follow each other without asking Redis once another process waits for the key.
   * 0 = strict order of arrival across processes. After 40 ms they may not in any case. @default 32
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

/** The options of one call, checked and complete. */
export interface ResolvedLockOptions {
  readonly waitMs: number;
  readonly leaseMs: number;
  readonly maxHoldMs: number;
  readonly renew: boolean;
  readonly holdAtLeastMs: number;
  /** Whether the lease may be kept for the next call when this one is done. */
  readonly linger: boolean;
  readonly label: string | undefined;
  readonly reentrant: boolean;
  readonly insideTransaction: InsideTransaction;
  /**
   * A lock that is not free in time ends the whole transaction: the call that asks has no answer of its own to that.
   */
  readonly isBusyFatal: boolean;
  readonly signal: AbortSignal | undefined;
}

export interface ResolvedServiceOptions extends Required<
  Omit<LockServiceOptions, keyof TransactionOptions>
> {
  readonly transactions: ResolvedTransactionOptions;
}

export const DEFAULT_SERVICE_OPTIONS: ResolvedServiceOptions = Object.freeze({
  waitMs: 10_000,
  leaseMs: 30_000,
  maxHoldMs: 600_000,
  localHandovers: 32,
  lingerMs: 0,
  awaitRelease: true,
  failFastAfterMs: 2_000,
  transactions: resolveTransactionOptions({}),
});

/** Below this the time limits of commands and the drift margin leave no room to renew. */
export const MIN_LEASE_MS = 500;

const MAX_LABEL_CHARACTERS = 200;

interface Rule {
  readonly min: number;
  readonly infinity: boolean;
  readonly unit: string;
}

const RULES = {
  waitMs: { min: 0, infinity: true, unit: 'milliseconds; 0 = one try, Infinity = no limit' },
  leaseMs: { min: MIN_LEASE_MS, infinity: false, unit: 'milliseconds' },
  maxHoldMs: { min: 1, infinity: true, unit: 'milliseconds; Infinity = no limit' },
  holdAtLeastMs: { min: 0, infinity: false, unit: 'milliseconds' },
  localHandovers: { min: 0, infinity: true, unit: 'a count' },
  lingerMs: { min: 0, infinity: false, unit: 'milliseconds' },
  failFastAfterMs: { min: 0, infinity: true, unit: 'milliseconds; Infinity = never' },
} as const satisfies Record<string, Rule>;

const SERVICE_NUMBERS = [
  ...(['waitMs', 'leaseMs', 'maxHoldMs', 'localHandovers'] as const),
  ...(['lingerMs', 'failFastAfterMs'] as const),
] as const;
const CALL_NUMBERS = ['waitMs', 'leaseMs', 'maxHoldMs', 'holdAtLeastMs'] as const;
const CALL_SWITCHES = ['renew', 'reentrant'] as const;

/** Complete, because the compiler asks for every name. */
const KNOWN_TO_CALLS: Readonly<Record<keyof WithLockOptions, true>> = {
  waitMs: true,
  leaseMs: true,
  maxHoldMs: true,
  renew: true,
  holdAtLeastMs: true,
  label: true,
  reentrant: true,
  insideTransaction: true,
  signal: true,
  onBusy: true,
};
const KNOWN_TO_SERVICES: Readonly<Record<keyof LockServiceOptions, true>> = {
  waitMs: true,
  leaseMs: true,
  maxHoldMs: true,
  localHandovers: true,
  lingerMs: true,
  awaitRelease: true,
  failFastAfterMs: true,
  insideTransaction: true,
  fence: true,
  transactionTimeouts: true,
};
const NOT_FOR_CALLS = {
  ...advice(KNOWN_TO_SERVICES, 'it is an option of the module, not of a call'),
  service: 'it is an option of @Locked; elsewhere, inject that service: @InjectLockService(name)',
  returns: 'it is an option of @Locked',
};
const NOT_FOR_SERVICES = advice(KNOWN_TO_CALLS, 'it is an option of a call, not of the module');

function advice(options: object, text: string): Record<string, string> {
  return Object.fromEntries(Object.keys(options).map((name) => [name, text]));
}

/**
 * Fills in the defaults and checks every value.
 *
 * @param alsoKnown options that the caller reads itself
 * @param elsewhere options that are known but belong somewhere else, with where that is
 * @throws LockConfigError naming option, value and what is allowed
 */
export function resolveServiceOptions(
  options: LockServiceOptions,
  alsoKnown: KnownOptions = {},
  elsewhere: Readonly<Record<string, string>> = {},
): ResolvedServiceOptions {
  if (typeof options !== 'object' || options === null) {
    throw new LockConfigError(`Invalid options: ${String(options)} must be an object`);
  }
  const known = { ...KNOWN_TO_SERVICES, ...alsoKnown };
  assertKnownOptions(options, known, { ...NOT_FOR_SERVICES, ...elsewhere });
  const resolved = {
    ...DEFAULT_SERVICE_OPTIONS,
    transactions: resolveTransactionOptions(options),
  };
  for (const name of SERVICE_NUMBERS) {
    const value = options[name];
    if (value !== undefined) resolved[name] = checkedNumber(name, value);
  }
  if (options.awaitRelease !== undefined) {
    resolved.awaitRelease = checkedSwitch('awaitRelease', options.awaitRelease);
  }
  return Object.freeze(resolved);
}

function assertLockOptions(options: WithLockOptions): void {
  if (typeof options !== 'object' || options === null) {
    throw new LockConfigError(`Invalid options: ${String(options)} must be an object`);
  }
  assertKnownOptions(options, KNOWN_TO_CALLS, NOT_FOR_CALLS);
  for (const name of CALL_NUMBERS) {
    const value = options[name];
    if (value !== undefined) checkedNumber(name, value);
  }
  for (const name of CALL_SWITCHES) {
    const value = options[name];
    if (value !== undefined) checkedSwitch(name, value);
  }
  assertInsideTransaction(options.insideTransaction);
  assertLabel(options.label);
  assertSignal(options.signal);
  assertOnBusy(options.onBusy);
}

/** Options that were checked. They are frozen, so that they stay what they were. */
const checkedOptions = new WeakSet<WithLockOptions>();

/**
 * Checks the options of a decorator once, instead of at every call.
 * @returns them, frozen @throws LockConfigError naming option, value and what is allowed
 */
export function checkedOnce(options: WithLockOptions): WithLockOptions {
  assertLockOptions(options);
  return frozen(options);
}

/** Checked options, with the signal of one call. */
export function withSignal(checked: WithLockOptions, signal: AbortSignal): WithLockOptions {
  return frozen({ ...checked, signal });
}

function frozen(options: WithLockOptions): WithLockOptions {
  const same = Object.freeze({ ...options });
  checkedOptions.add(same);
  return same;
}

/** @throws LockConfigError naming option, value and what is allowed */
export function resolveLockOptions(
  options: WithLockOptions | undefined,
  defaults: ResolvedServiceOptions,
): ResolvedLockOptions {
  if (options !== undefined && !checkedOptions.has(options)) assertLockOptions(options);
  const { waitMs, leaseMs, maxHoldMs, renew = true, holdAtLeastMs = 0, onBusy } = options ?? {};
  return {
    waitMs: waitMs ?? defaults.waitMs,
    leaseMs: leaseMs ?? defaults.leaseMs,
    maxHoldMs: maxHoldMs ?? defaults.maxHoldMs,
    renew,
    holdAtLeastMs,
    // A job that runs once must not be skipped because a replica merely keeps the key in case it needs it again.
    linger: holdAtLeastMs === 0 && onBusy === undefined,
    label: options?.label,
    reentrant: options?.reentrant ?? true,
    insideTransaction: options?.insideTransaction ?? defaults.transactions.insideTransaction,
    isBusyFatal: (onBusy ?? 'throw') === 'throw' && waitMs !== 0,
    signal: options?.signal,
  };
}

function checkedNumber(name: keyof typeof RULES, value: unknown): number {
  const { min, infinity, unit } = RULES[name];
  const whole =
    typeof value === 'number' && (Number.isSafeInteger(value) || (infinity && value === Infinity));
  if (!whole || value < min) {
    throw invalidOption(name, value, `must be a whole number of at least ${min} (${unit})`);
  }
  return value;
}

function checkedSwitch(name: string, value: unknown): boolean {
  if (typeof value !== 'boolean') throw invalidOption(name, value, 'must be true or false');
  return value;
}

function assertLabel(label: unknown): void {
  if (label === undefined) return;
  if (typeof label === 'string' && label !== '' && label.length <= MAX_LABEL_CHARACTERS) return;
  throw invalidOption('label', label, `must be a text of 1 to ${MAX_LABEL_CHARACTERS} characters`);
}

function assertSignal(signal: unknown): void {
  if (signal === undefined || signal instanceof AbortSignal) return;
  throw invalidOption('signal', signal, 'must be an AbortSignal; pass controller.signal');
}

function assertOnBusy(onBusy: unknown): void {
  if (onBusy === undefined || onBusy === 'throw' || onBusy === 'skip') return;
  if (typeof onBusy === 'function') return;
  throw invalidOption('onBusy', onBusy, "must be 'throw', 'skip' or a function");
}
