import { LockConfigError } from './lock.errors.js';

/** What one call may ask for. Everything is optional; the module's options are the defaults. */
export interface LockOptions {
  /** How long to wait for the lock, in milliseconds; 0 = one try, `Infinity` allowed. @default 10_000 */
  readonly waitMs?: number;
  /**
   * How long the lock outlives a crash, in milliseconds, at least 500. While the work runs it is renewed, so the
   * work may take longer. Shorter: a dead holder's key is free sooner; longer: a slow Redis does less harm.
   * @default 30_000
   */
  readonly leaseMs?: number;
  /** Cancels the wait (not the work): the call rejects with `LockAbortedError`. */
  readonly signal?: AbortSignal;
}

export type WithLockOptions = LockOptions;

/** The options of a whole `LockService`: defaults for every call, and what only makes sense once. */
export interface LockServiceOptions {
  /** Default of every call. @default 10_000 */
  readonly waitMs?: number;
  /** Default of every call. @default 30_000 */
  readonly leaseMs?: number;
  /**
   * How many callers of this process may follow each other without Redis once another process waits for the key.
   * 0 = strict order of arrival across processes. At most one second's worth in any case. @default 32
   */
  readonly localHandovers?: number;
}

/** A duration or count that was checked: code never asks again. */
export interface ResolvedLockOptions {
  readonly waitMs: number;
  readonly leaseMs: number;
  readonly signal: AbortSignal | undefined;
}

export type ResolvedServiceOptions = Required<LockServiceOptions>;

export const DEFAULT_SERVICE_OPTIONS: ResolvedServiceOptions = Object.freeze({
  waitMs: 10_000,
  leaseMs: 30_000,
  localHandovers: 32,
});

/** Below this the time limits of commands and the drift margin leave no room to renew. */
export const MIN_LEASE_MS = 500;

type Rule = { readonly min: number; readonly infinity: boolean; readonly unit: string };

const RULES = {
  waitMs: { min: 0, infinity: true, unit: 'milliseconds; 0 = one try, Infinity = no limit' },
  leaseMs: { min: MIN_LEASE_MS, infinity: false, unit: 'milliseconds' },
  localHandovers: { min: 0, infinity: true, unit: 'a count' },
} as const satisfies Record<string, Rule>;

const SERVICE_OPTION_NAMES = ['waitMs', 'leaseMs', 'localHandovers'] as const;
const CALL_OPTION_NAMES = ['waitMs', 'leaseMs'] as const;

/**
 * Fills in the defaults and checks every value.
 * @throws LockConfigError naming option, value and what is allowed
 */
export function resolveServiceOptions(options: LockServiceOptions): ResolvedServiceOptions {
  const resolved = { ...DEFAULT_SERVICE_OPTIONS };
  for (const name of SERVICE_OPTION_NAMES) {
    const value = options[name];
    if (value !== undefined) resolved[name] = checked(name, value);
  }
  return Object.freeze(resolved);
}

/**
 * Checks the options of one call without applying defaults: for decorators, at the moment of decoration.
 * @throws LockConfigError naming option, value and what is allowed
 */
export function assertLockOptions(options: LockOptions): void {
  for (const name of CALL_OPTION_NAMES) {
    const value = options[name];
    if (value !== undefined) checked(name, value);
  }
  if (options.signal !== undefined && !(options.signal instanceof AbortSignal)) {
    throw new LockConfigError(
      `Invalid option signal: ${String(options.signal)} is not an AbortSignal; pass controller.signal`,
    );
  }
}

/** @throws LockConfigError naming option, value and what is allowed */
export function resolveLockOptions(
  options: LockOptions | undefined,
  defaults: ResolvedServiceOptions,
): ResolvedLockOptions {
  if (options === undefined) {
    return { waitMs: defaults.waitMs, leaseMs: defaults.leaseMs, signal: undefined };
  }
  assertLockOptions(options);
  return {
    waitMs: options.waitMs ?? defaults.waitMs,
    leaseMs: options.leaseMs ?? defaults.leaseMs,
    signal: options.signal,
  };
}

function checked(name: keyof typeof RULES, value: unknown): number {
  const { min, infinity, unit } = RULES[name];
  const whole =
    typeof value === 'number' && (Number.isSafeInteger(value) || (infinity && value === Infinity));
  if (!whole || value < min) {
    throw new LockConfigError(
      `Invalid option ${name}: ${typeof value === 'string' ? `'${value}'` : String(value)} must be a whole number of at least ${min} (${unit})`,
    );
  }
  return value;
}
