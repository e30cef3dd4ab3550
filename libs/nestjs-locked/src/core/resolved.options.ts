import { assertKnownOptions, type KnownOptions } from './known-options.js';
import { invalidOption } from './lock.errors.js';
import type { LockServiceOptions, WithLockOptions } from './lock.options.js';
import {
  assertInsideTransaction,
  type InsideTransaction,
  type ResolvedTransactionOptions,
  resolveTransactionOptions,
  type TransactionOptions,
} from './transaction.options.js';

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
