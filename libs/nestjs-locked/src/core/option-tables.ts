import type { LeadOptions } from './leadership.js';
import type { DetachOptions } from './lock.js';
import type { AdoptOptions, LockServiceOptions, WithLockOptions } from './lock.options.js';
import { flag, must, type OptionTable, shortText, wholeNumber } from './option.js';
import { TRANSACTION_OPTIONS, type TransactionOptions } from './transaction.options.js';

export type EngineOptions = Omit<LockServiceOptions, keyof TransactionOptions>;

/** With a shorter lease, command time limits and drift margin leave no room to renew. */
const MIN_LEASE_MS = 500;

/** Six of the shortest leases: command time limits and the lease of a hand-over fit in. */
export const LEAST_FIRST_LEASE_MS = 3_000;

const MAX_LABEL_CHARACTERS = 200;

/** All holders of a key stand in one value of Redis, which each command for it reads and writes. */
const MAX_PERMITS = 1_000;

/** What `arePermits` accepts, for messages. */
export const PERMITS_ALLOWED = `a whole number from 1 to ${MAX_PERMITS}`;

/** Whether so many may hold a key at once. */
export function arePermits(value: unknown): value is number {
  return Number.isInteger(value) && (value as number) >= 1 && (value as number) <= MAX_PERMITS;
}

/** The options of a lock service that the engine reads. */
export const ENGINE_OPTIONS: OptionTable<EngineOptions> = {
  waitMs: {
    default: 10_000,
    check: wholeNumber(0, 'milliseconds; 0 = one try', 'no limit'),
    otherNames: [
      'timeout',
      'waittimeout',
      'waittime',
      'acquiretimeout',
      'retrycount',
      'maxattempts',
      'acquireattemptslimit',
      'waitseconds',
      'retries',
      'maxretries',
      'attempts',
    ],
    text: 'How long a call waits; `0` is a single try, `Infinity` is allowed. Keep it below the time-out of your clients',
  },
  maxWaiters: {
    default: Infinity,
    check: wholeNumber(1, 'calls', 'no limit'),
    otherNames: ['maxqueue', 'maxqueuesize', 'queuelimit', 'maxpending', 'maxwaiting', 'queuesize'],
    text: 'How many calls of this process may wait for the same key; any further one fails at once with `LOCK_QUEUE_FULL`',
  },
  leaseMs: {
    default: 30_000,
    check: wholeNumber(MIN_LEASE_MS, 'milliseconds; it is renewed while the work runs'),
    otherNames: [
      'ttl',
      'ttlms',
      'duration',
      'expire',
      'expiry',
      'locktimeout',
      'leasetime',
      'releasetime',
      'expires',
      'expiration',
      'px',
    ],
    text: `How long a lock outlives a crash; the least value is ${MIN_LEASE_MS}. Lower frees it sooner; higher tolerates a slower Redis`,
  },
  maxHoldMs: {
    default: 600_000,
    check: wholeNumber(1, 'milliseconds', 'no limit'),
    otherNames: ['maxholdtime'],
    text: 'How long the work may hold the lock; `Infinity` is allowed. Keeps a hanging handler from holding a key for ever',
  },
  localHandovers: {
    default: 32,
    check: wholeNumber(0, 'a count', 'no limit'),
    text: 'How many callers of this process may go first while other processes wait ([fact 2](docs/behaviour.md#2-first-come-first-served)); `0` is strict order',
  },
  lingerMs: {
    default: 0,
    check: wholeNumber(0, 'milliseconds'),
    text: 'Keeps a released key this long in case this process wants it again, `leaseMs` at most; another process that waits gets it at once. A [single try](docs/waiting.md#who-is-next) by another process finds it busy once. Not used after calls with `onBusy`, `holdAtLeastMs` or `renew: false`',
  },
  firstLeaseMs: {
    default: Infinity,
    shownDefault: '`leaseMs`',
    check: must(
      `'learned', or a whole number of at least ${LEAST_FIRST_LEASE_MS} (milliseconds)`,
      (value) =>
        value === 'learned' ||
        (Number.isSafeInteger(value) && (value as number) >= LEAST_FIRST_LEASE_MS),
    ),
    text: "A shorter lease until the first renewal, after a third of it, so that the key of short work is [free sooner after a crash](docs/first-lease.md). `'learned'`: as the stalls of the service allow",
  },
  awaitRelease: {
    default: true,
    check: flag,
    text: '`false`: return the result one round trip earlier, without waiting for the release',
  },
  failFastAfterMs: {
    default: 2_000,
    check: wholeNumber(0, 'milliseconds', 'never'),
    text: 'How long Redis may be away before new calls that need it fail at once ([outages](docs/outages.md)); `Infinity`: never',
  },
};

/** All options of a lock service. `RedisLockModule` has more: `nest/module/module-option-table.ts`. */
export const SERVICE_OPTIONS: OptionTable<LockServiceOptions> = {
  ...ENGINE_OPTIONS,
  ...TRANSACTION_OPTIONS,
};

/** The options of one call. Those without a default here have it in the service. */
export const CALL_OPTIONS: OptionTable<WithLockOptions> = {
  waitMs: { ...ENGINE_OPTIONS.waitMs, default: undefined },
  maxWaiters: { ...ENGINE_OPTIONS.maxWaiters, default: undefined },
  leaseMs: { ...ENGINE_OPTIONS.leaseMs, default: undefined },
  maxHoldMs: { ...ENGINE_OPTIONS.maxHoldMs, default: undefined },
  mode: {
    default: 'exclusive',
    check: must(
      "'exclusive' or 'shared', or a function that gives one of them for a key",
      (value) => value === 'exclusive' || value === 'shared' || typeof value === 'function',
    ),
    otherNames: ['locktype', 'lockmode', 'type', 'kind'],
    text: "`'shared'`: any number of [readers](docs/readers.md) have the key at once, but never beside an exclusive holder. A function says it for each of several keys",
  },
  permits: {
    shownDefault: 'none',
    check: must(
      `${PERMITS_ALLOWED}, or a function that gives one for a key`,
      (value) => typeof value === 'function' || arePermits(value),
    ),
    otherNames: ['limit', 'concurrency', 'maxconcurrency', 'maxconcurrent', 'semaphore', 'count'],
    text: 'At most so many hold the key at once, in all processes ([permits](docs/permits.md)). A function says it for each of several keys',
  },
  weight: {
    default: 1,
    check: wholeNumber(1, 'permits'),
    text: 'How many of the `permits` the call takes',
  },
  onBusy: {
    default: 'throw',
    check: must(
      "'throw', 'skip' or a function",
      (value) => value === 'throw' || value === 'skip' || typeof value === 'function',
    ),
    otherNames: ['onlockfailed'],
    text: "`'skip'`: the call returns `undefined`, which its type must allow. A function: the call returns its result",
  },
  holdAtLeastMs: {
    default: 0,
    check: wholeNumber(0, 'milliseconds'),
    text: 'How long the key stays taken even if the work ends sooner or throws, unless others have had it since or [Redis was away](docs/cron.md#exactly-once-except)',
  },
  renew: {
    default: true,
    check: flag,
    otherNames: ['autoextend', 'autorenew'],
    text: '`false`: a fixed lease that ends after `leaseMs`, unless `ensureRemaining` prolongs it; only nested calls share it',
  },
  firstLeaseMs: { ...ENGINE_OPTIONS.firstLeaseMs, default: undefined },
  reentrant: {
    default: true,
    check: flag,
    text: '`false`: request a separate lock instead of joining ([fact 9](docs/behaviour.md#9-a-nested-call-that-asks-for-the-same-key-joins))',
  },
  label: {
    shownDefault: 'the locked method',
    check: shortText(MAX_LABEL_CHARACTERS),
    text: 'Names the holder in `inspect`, `list`, errors and the log',
  },
  insideTransaction: {
    shownDefault: "the module's",
    check: TRANSACTION_OPTIONS.insideTransaction.check,
    text: 'What happens when this lock is requested inside an open transaction',
  },
  signal: {
    shownDefault: 'none',
    check: must('an AbortSignal; pass controller.signal', (value) => value instanceof AbortSignal),
    text: 'Cancels the wait; not for `@Locked`',
  },
};

/** The options of `detach`. */
export const DETACH_OPTIONS: OptionTable<DetachOptions> = {
  forMs: {
    isRequired: true,
    check: wholeNumber(MIN_LEASE_MS, 'milliseconds'),
    otherNames: ENGINE_OPTIONS.leaseMs.otherNames ?? [],
  },
};

/** The options of `adopt`. */
export const ADOPT_OPTIONS: OptionTable<AdoptOptions> = {
  leaseMs: CALL_OPTIONS.leaseMs,
  maxHoldMs: CALL_OPTIONS.maxHoldMs,
  renew: CALL_OPTIONS.renew,
  label: { ...CALL_OPTIONS.label, shownDefault: 'that of the lock' },
};

/** The options of a leader. */
export const LEAD_OPTIONS: OptionTable<LeadOptions> = {
  leaseMs: CALL_OPTIONS.leaseMs,
  maxHoldMs: { ...CALL_OPTIONS.maxHoldMs, default: Infinity },
  label: CALL_OPTIONS.label,
};
