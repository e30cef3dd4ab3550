import type { LeadOptions } from './leadership.js';
import { invalidOption } from './lock.errors.js';
import type { AdoptOptions, LockServiceOptions, WithLockOptions } from './lock.options.js';
import type { HeldMode, ModeOfKey, PermitsOfKey } from './lock-mode.js';
import { assertOptions, type OptionTable, withDefaults } from './option.js';
import { adviceForEach } from './option-advice.js';
import {
  ADOPT_OPTIONS,
  CALL_OPTIONS,
  ENGINE_OPTIONS,
  type EngineOptions,
  LEAD_OPTIONS,
  SERVICE_OPTIONS,
} from './option-tables.js';
import {
  type InsideTransaction,
  type ResolvedTransactionOptions,
  resolveTransactionOptions,
} from './transaction.options.js';

/** The options of one call, checked and complete. */
export interface ResolvedLockOptions {
  readonly mode: HeldMode | ModeOfKey;
  /** If the mode is that of permits. */
  readonly permits: number | PermitsOfKey | undefined;
  readonly weight: number;
  readonly waitMs: number;
  readonly maxWaiters: number;
  readonly leaseMs: number;
  /** Infinity if the first lease is a whole one. */
  readonly firstLeaseMs: number | 'learned';
  readonly maxHoldMs: number;
  readonly renew: boolean;
  readonly holdAtLeastMs: number;
  /** Whether the lease may be kept for the next call when this one is done. */
  readonly linger: boolean;
  /** @default the caller's name, if known */
  readonly label: string | undefined;
  /** The key as `@Locked` has it, if known. */
  readonly template: string | undefined;
  readonly reentrant: boolean;
  readonly insideTransaction: InsideTransaction;
  /**
   * Whether a lock that is not free in time ends the whole transaction, because the call itself does not handle that.
   */
  readonly isBusyFatal: boolean;
  readonly signal: AbortSignal | undefined;
  /** The message of the call on `nestjs-locked:acquire`, if anybody is subscribed. No option of the call. */
  readonly message?: object;
}

export interface ResolvedServiceOptions extends Required<EngineOptions> {
  readonly transactions: ResolvedTransactionOptions;
}

/** The options of the lock module that no lock service has, and that are written into calls by mistake. */
const MODULE_OPTION_NAMES = [
  'connection',
  'keyPrefix',
  'layout',
  'fenceKeepMs',
  'waitReplicas',
  'shutdownMs',
];

/** Advice for options of other libraries that have no counterpart here. */
export const NO_COUNTERPART: Readonly<Record<string, string>> = {
  ...adviceForEach(
    ['retryDelay', 'retryJitter', 'retryInterval', 'wait'],
    'leave it out: a waiting call is told when it has the lock, and does not poll; waitMs limits the wait',
  ),
  ...adviceForEach(
    ['automaticExtensionThreshold', 'refreshInterval'],
    'leave it out: leases are renewed every third of leaseMs',
  ),
  driftFactor: 'leave it out: leases count from the sending of their command, with a margin',
  ignoreUnlockFail: 'leave it out: a release that fails is repeated, and never fails a call',
  logLevel: 'leave it out, and set the levels of the Nest logger',
  onLockLost: 'leave it out, and use lock.signal, which aborts when the lock is lost',
};

const NOT_FOR_CALLS: Readonly<Record<string, string>> = {
  ...NO_COUNTERPART,
  ...adviceForEach(
    [...Object.keys(SERVICE_OPTIONS), ...MODULE_OPTION_NAMES],
    'it is an option of the module, not of a call; pass it to RedisLockModule.forRoot',
  ),
  name: 'write label to name the call, or service, in the options of @Locked, to name the lock module',
  service: 'it is an option of @Locked; elsewhere, inject that service: @InjectLockService(name)',
  returns: 'it is an option of @Locked; elsewhere, leave it out',
};
const NOT_FOR_SERVICES = Object.fromEntries(
  Object.keys(CALL_OPTIONS).map((name) => [
    name,
    `it is an option of a call, not of the module; pass it there, after the key: { ${name} }`,
  ]),
);

/**
 * Fills in the defaults and checks every value.
 *
 * @param more options that the caller reads itself
 * @param elsewhere known options that belong elsewhere, each with the place
 * @throws LockConfigError naming option, value and what is allowed
 */
export function resolveServiceOptions(
  options: LockServiceOptions,
  more: OptionTable<object> = {},
  elsewhere: Readonly<Record<string, string>> = {},
): ResolvedServiceOptions {
  assertOptions({ ...more, ...SERVICE_OPTIONS }, options, {
    elsewhere: { ...NOT_FOR_SERVICES, ...elsewhere },
  });
  const engine = withDefaults(ENGINE_OPTIONS, options);
  assertLeaseCoversLinger(engine);
  assertLeaseCoversFirst(engine, options.firstLeaseMs);
  return Object.freeze({ ...engine, transactions: resolveTransactionOptions(options) });
}

function assertLeaseCoversLinger({ lingerMs, leaseMs }: Required<EngineOptions>): void {
  if (lingerMs <= leaseMs) return;
  const rule = `must be at most leaseMs (${leaseMs}), because a lease that nobody uses is not renewed`;
  throw invalidOption('lingerMs', lingerMs, `${rule}; set a lower lingerMs or a higher leaseMs`);
}

function assertLeaseCoversFirst(
  { leaseMs }: Required<EngineOptions>,
  firstLeaseMs: LockServiceOptions['firstLeaseMs'],
): void {
  if (typeof firstLeaseMs !== 'number' || firstLeaseMs <= leaseMs) return;
  const rule = `must be at most leaseMs (${leaseMs}), which is the whole lease`;
  throw invalidOption(
    'firstLeaseMs',
    firstLeaseMs,
    `${rule}; leave it out, or set a longer leaseMs`,
  );
}

export const DEFAULT_SERVICE_OPTIONS: ResolvedServiceOptions = resolveServiceOptions({});

/** Computed once for all calls. */
const CALL_DEFAULTS = withDefaults(CALL_OPTIONS, {});

function assertLockOptions(options: WithLockOptions): void {
  assertOptions(CALL_OPTIONS, options, { elsewhere: NOT_FOR_CALLS, remedy: remedyForCall });
  assertPermits(options);
  const { mode = 'exclusive', permits, holdAtLeastMs = 0 } = options;
  if ((mode === 'exclusive' && permits === undefined) || holdAtLeastMs === 0) return;
  const rule =
    'must be 0 with mode or permits: the key stays taken by nobody, so no reader or permit could have it either';
  throw invalidOption('holdAtLeastMs', holdAtLeastMs, `${rule}; leave it out, or lock exclusively`);
}

/** @throws LockConfigError for options that contradict each other */
export function assertPermits({
  mode,
  permits,
  weight,
}: Pick<WithLockOptions, 'mode' | 'permits' | 'weight'>): void {
  if (permits === undefined && weight !== undefined)
    throw invalidOption(
      'weight',
      weight,
      'is for calls with permits; add permits, or leave it out',
    );
  if (permits !== undefined && mode !== undefined)
    throw invalidOption('permits', permits, 'must not be given with mode; leave out one of them');
  if (typeof permits === 'number') assertFits(weight, permits);
}

/** @throws LockConfigError if a call wants more permits than there are */
export function assertFits(weight = 1, permits: number): void {
  if (weight <= permits) return;
  const rule = `must be at most permits (${permits}), or the call would wait for ever`;
  throw invalidOption('weight', weight, `${rule}; set a lower weight or more permits`);
}

/** What to write instead of calls as in other libraries: `acquire(key, 5000)`, `acquire(key, work)`. */
export function remedyForCall(options: unknown): string {
  if (typeof options === 'function') return '; work belongs to withLock(key, work)';
  return typeof options === 'number'
    ? '; the lease is renewed until the release, so it needs no time: to change how long it lasts after a crash, write { leaseMs }'
    : '';
}

/** Options that were checked, frozen so that they cannot change afterwards. */
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

const NOT_FOR_LEADERS: Readonly<Record<string, string>> = {
  ...NOT_FOR_CALLS,
  ...adviceForEach(
    Object.keys(CALL_OPTIONS),
    'leave it out: a leader waits until it is elected, and leads until its work ends',
  ),
  signal: 'leave it out, and call resign() of what lead returns',
};

const NOT_FOR_ADOPTERS = adviceForEach(
  Object.keys(CALL_OPTIONS),
  'leave it out: a lock that was handed over is adopted as it is, at once or not at all',
);

/**
 * The options of the calls by which a leader takes its lock.
 * @returns them, checked and frozen @throws LockConfigError naming option, value and what is allowed
 */
export function resolveLeadOptions(options: LeadOptions): WithLockOptions {
  assertOptions(LEAD_OPTIONS, options, { elsewhere: NOT_FOR_LEADERS });
  const known = withDefaults(LEAD_OPTIONS, options);
  return checkedOnce({ ...known, waitMs: Infinity, maxWaiters: Infinity });
}

/**
 * The options of a call that adopts a lock, for which nobody waits. Its lease serves no later call.
 * @param label of the lock, if it has one @throws LockConfigError naming option, value and what is allowed
 */
export function resolveAdoptOptions(
  options: AdoptOptions,
  defaults: ResolvedServiceOptions,
  label: string | undefined,
): ResolvedLockOptions {
  const elsewhere = { ...NOT_FOR_CALLS, ...NOT_FOR_ADOPTERS };
  assertOptions(ADOPT_OPTIONS, options, { elsewhere });
  const known = checkedOnce({ ...options, waitMs: 0 });
  return { ...resolveLockOptions(known, defaults, label), firstLeaseMs: Infinity, linger: false };
}

/**
 * @param callSite the caller's name, if known
 * @param template the key as `@Locked` has it, if known
 * @throws LockConfigError naming option, value and what is allowed
 */
export function resolveLockOptions(
  options: WithLockOptions | undefined,
  defaults: ResolvedServiceOptions,
  callSite?: string,
  template?: string,
): ResolvedLockOptions {
  if (options !== undefined && !checkedOptions.has(options)) assertLockOptions(options);
  const {
    permits,
    mode = permits === undefined ? CALL_DEFAULTS.mode : 'permit',
    weight = CALL_DEFAULTS.weight,
    waitMs,
    maxWaiters,
    leaseMs,
    firstLeaseMs = leaseMs === undefined ? defaults.firstLeaseMs : Infinity,
    maxHoldMs,
    renew = CALL_DEFAULTS.renew,
    holdAtLeastMs = CALL_DEFAULTS.holdAtLeastMs,
    reentrant = CALL_DEFAULTS.reentrant,
    onBusy,
  } = options ?? {};
  const waits = waitMs ?? defaults.waitMs;
  return {
    mode,
    permits,
    weight,
    waitMs: waits,
    maxWaiters: maxWaiters ?? defaults.maxWaiters,
    leaseMs: leaseMs ?? defaults.leaseMs,
    // A key that is to stay taken for a while must stay so after a crash, too.
    firstLeaseMs: renew && holdAtLeastMs === 0 ? firstLeaseMs : Infinity,
    maxHoldMs: maxHoldMs ?? defaults.maxHoldMs,
    renew,
    holdAtLeastMs,
    // A job that runs once must not be skipped because a replica merely lingers on the key.
    linger: holdAtLeastMs === 0 && onBusy === undefined,
    label: options?.label ?? callSite,
    template,
    reentrant,
    insideTransaction: options?.insideTransaction ?? defaults.transactions.insideTransaction,
    isBusyFatal: (onBusy ?? CALL_DEFAULTS.onBusy) === 'throw' && waits !== 0,
    signal: options?.signal,
  };
}
