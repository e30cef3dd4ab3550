import { assertIsObject } from '../arguments.js';
import type { AcquiredEntry, AcquiredLocks } from '../calls/acquired-locks.js';
import { Acquisition, type CallParts } from '../calls/acquisition.js';
import { adoptLevels } from '../calls/adoption.js';
import { type HandedOverLease, readHandOff } from '../calls/hand-off.js';
import type { HandedOutLocks } from '../calls/handed-out-locks.js';
import type { HeldLock } from '../calls/held-lock.js';
import { assertMayHandOver } from '../calls/only-exclusive.js';
import type { ReentryLevel } from '../calls/reentry-level.js';
import { currentTransaction } from '../calls/transaction-registry.js';
import { ACQUIRE } from '../events/lock-channels.js';
import { inOrder } from '../keys/key-order.js';
import { Campaigns } from '../leader/campaigns.js';
import type { Leadership, LeaderWork, LeadOptions } from '../leadership.js';
import {
  LockConfigError,
  LockDeadlockError,
  LockInTransactionError,
  type LockKeyError,
  LockNotAcquiredError,
  LockQueueFullError,
  type LockStoreError,
} from '../lock.errors.js';
import type { Lock } from '../lock.js';
import type { AdoptOptions, LockKeys, LockOptions, WithLockOptions } from '../lock.options.js';
import type { LockHealth } from '../lock-health.js';
import type { LockInfo, LockWait } from '../lock-info.js';
import type { LockOverview } from '../lock-overview.js';
import { CALL_OPTIONS } from '../option-tables.js';
import { QueuesByKey } from '../queue/queues-by-key.js';
import { ANSWER_GRACE_MS } from '../queue/waiting-call.js';
import {
  remedyForCall,
  resolveAdoptOptions,
  type ResolvedLockOptions,
  resolveLockOptions,
} from '../resolved.options.js';
import { labelOf } from '../store/lease-token.js';
import { systemClock } from '../time/clock.js';
import { assembleParts, type EngineSupplies } from './assemble-parts.js';
import { EngineInbox } from './engine-inbox.js';
import { EngineLifetime } from './engine-lifetime.js';
import { describedHolder, HolderLookup } from './holder-lookup.js';
import { LocalView } from './local-view.js';
import { LockOperations } from './lock-operations.js';
import { IS_LOCK_ENGINE, type LockRunner } from './lock-runner.js';
import { LocksInTransactions, type ServiceName } from './locks-in-transactions.js';
import { tracedAcquire } from './traced-acquire.js';

/** `clock` and `random` are for tests; the defaults are the system's. */
export type LockEngineOptions = Omit<EngineSupplies, 'clock' | 'random'> &
  Partial<EngineSupplies> &
  ServiceName;

/** What a call adopts, and how. */
interface WantedAdoption {
  readonly leases: readonly HandedOverLease[];
  readonly options: ResolvedLockOptions;
}

/**
 * The implementation of one lock service, without Nest; `core/README.md` describes it on one page.
 *
 * A call enters here with its keys and options, and gets its re-entry levels from an `Acquisition`. Inside an open
 * transaction, it gets them from that transaction instead, which decides whether a lock can be taken now, and keeps it
 * until its end.
 */
export class LockEngine implements LockRunner {
  readonly [IS_LOCK_ENGINE] = true;
  /** The locks of this service, as the transactions of an ORM see them. */
  readonly inTransactions: LocksInTransactions;
  readonly #calls: CallParts;
  readonly #acquired: AcquiredLocks;
  readonly #handedOut: HandedOutLocks;
  readonly #holders: HolderLookup;
  readonly #operations: LockOperations;
  readonly #lifetime: EngineLifetime;
  readonly #campaigns: Campaigns;

  constructor({
    clock = systemClock,
    random = Math.random,
    name,
    keyPrefix,
    ...supplies
  }: LockEngineOptions) {
    // Parts and queues depend on each other: when the machine has slept, the parts ask the queues for their leases.
    const parts = assembleParts({ ...supplies, clock, random, name }, () => queues);
    const queues = new QueuesByKey(parts);
    this.inTransactions = new LocksInTransactions(parts, queues, { name, keyPrefix });
    this.#calls = this.inTransactions.calls;
    this.#handedOut = this.inTransactions.handedOut;
    this.#acquired = this.inTransactions.acquired;
    const local = new LocalView(queues, parts.store.processId, clock);
    this.#holders = new HolderLookup(parts.store.inspector, local, clock);
    const { questions } = this.#calls.deadlocks;
    const inbox = new EngineInbox(parts, queues, questions);
    this.#lifetime = new EngineLifetime(parts, queues, inbox, this.#handedOut, this.inTransactions);
    this.#operations = new LockOperations(parts, this.#lifetime, inbox, local, questions);
    this.#campaigns = new Campaigns({
      parts,
      withLock: (key, options, work) => this.withLock(key, options, work, 'lead', key),
      current: (key) => this.current(key),
    });
  }

  // ---- beginning and end ------------------------------------------------------------------------------------

  /** @throws LockStoreError · LockConfigError · LockAbortedError if it is already closed, or is closed meanwhile */
  open(): Promise<void> {
    return this.#lifetime.open();
  }

  /** Keeps trying to open the store after `open` has failed. Until it is open, every call fails at once. */
  openLater(cause: LockStoreError): void {
    this.#lifetime.openLater(cause);
  }

  /** Grants no new locks, rejects waiting calls and ends campaigns. Holds are kept and renewed. */
  drain(): void {
    this.#campaigns.close();
    this.#lifetime.drain();
  }

  /**
   * Waits for the holders. Then their signals abort, and their leases are left to expire, because their work may still
   * be running.
   *
   * @param limitMs the total time limit
   */
  close(limitMs: number): Promise<void> {
    this.#campaigns.close();
    return this.#lifetime.close(limitMs);
  }

  // ---- locking ----------------------------------------------------------------------------------------------

  /** Waits for the lock. @throws LockNotAcquiredError, or another LockError */
  async acquire(keys: LockKeys, options?: LockOptions): Promise<HeldLock> {
    assertOptionsOf('acquire', options);
    const resolved = this.#resolved(options);
    try {
      return await this.#lockOf(resolved, () => this.#levelsOf(keys, resolved, 'acquire'));
    } catch (error) {
      throw await this.#explained(error, resolved);
    }
  }

  /** @param options `waitMs` is 0 unless given @returns null if somebody else has the lock */
  async tryAcquire(keys: LockKeys, options?: LockOptions): Promise<HeldLock | null> {
    assertOptionsOf('tryAcquire', options);
    const resolved = resolveLockOptions(options, { ...this.#calls.parts.options, waitMs: 0 });
    try {
      return await this.#lockOf(resolved, () => this.#levelsOf(keys, resolved, 'tryAcquire'));
    } catch (error) {
      if (error instanceof LockNotAcquiredError) return null;
      throw await this.#explained(error, resolved);
    }
  }

  /** Hands out what is taken, which its context knows from before it is taken, so that a failure leaves nothing. */
  async #lockOf(
    options: ResolvedLockOptions,
    take: () => Promise<readonly ReentryLevel[]>,
  ): Promise<HeldLock> {
    const entry = this.#newEntry(options);
    try {
      const lock = this.#handedOut.handOut(await take());
      entry?.take(lock);
      return lock;
    } catch (error) {
      entry?.leave();
      await this.#pause();
      throw error;
    }
  }

  async withLock<T>(
    keys: LockKeys,
    options: WithLockOptions,
    work: (lock: Lock) => T | Promise<T>,
    callSite?: string,
    template?: string,
  ): Promise<T> {
    const resolved = this.#resolved(options, callSite, template);
    let levels: readonly ReentryLevel[];
    try {
      levels = await this.#levelsOf(keys, resolved, callSite ?? 'withLock');
    } catch (error) {
      await this.#pause();
      if (error instanceof LockNotAcquiredError && options.onBusy === 'skip') return undefined as T;
      return busyResult<T>(await this.#explained(error, resolved, callSite), options.onBusy);
    }
    return this.#handedOut.run(levels, work);
  }

  /**
   * Goes on under a lock that was handed over, and returns it.
   * @throws LockNotAdoptedError, or another LockError
   */
  async adopt(text: string, options: AdoptOptions = {}): Promise<HeldLock> {
    const wanted = this.#adoption(text, options);
    return this.#lockOf(wanted.options, () => this.#adopted(wanted));
  }

  /** The same, for the time of the work. */
  async withAdopted<T>(
    text: string,
    options: AdoptOptions,
    work: (lock: Lock) => T | Promise<T>,
  ): Promise<T> {
    let levels: readonly ReentryLevel[];
    try {
      levels = await this.#adopted(this.#adoption(text, options));
    } catch (error) {
      await this.#pause();
      throw error;
    }
    return this.#handedOut.run(levels, work);
  }

  #adoption(text: string, options: AdoptOptions): WantedAdoption {
    const leases = readHandOff(text, this.inTransactions.keyPrefix);
    assertMayHandOver(this.#calls.parts.store, 'adopt', leases[0]?.key);
    const label = labelOf(leases[0]?.token ?? '');
    return { leases, options: resolveAdoptOptions(options, this.#calls.parts.options, label) };
  }

  async #adopted({ leases, options }: WantedAdoption): Promise<readonly ReentryLevel[]> {
    const keys = leases.map(({ key }) => key);
    const [key] = keys;
    if (currentTransaction() !== undefined) {
      throw new LockInTransactionError(
        `Cannot adopt lock '${key}' inside an open transaction, which may have read before; adopt it first, and begin the transaction under it`,
        key,
      );
    }
    const take = async (of: ResolvedLockOptions): Promise<readonly ReentryLevel[]> => {
      if (!this.#lifetime.isOpen) await this.open();
      return adoptLevels(this.#calls, leases, of);
    };
    if (!ACQUIRE.hasSubscribers) return take(options);
    return tracedAcquire(this.#calls.parts.clock, this.inTransactions.name, keys, options, take);
  }

  /** Begins a campaign. @throws LockKeyError · LockConfigError · LockInTransactionError · LockAbortedError */
  lead(key: string, options: LeadOptions, work: LeaderWork): Leadership {
    return this.#campaigns.begin(key, options, work);
  }

  /** @returns one re-entry level for each key, all of them held */
  #levelsOf(
    asked: LockKeys,
    options: ResolvedLockOptions,
    callSite: string,
  ): Promise<readonly ReentryLevel[]> {
    const keys = inOrder(asked);
    if (!ACQUIRE.hasSubscribers) return this.#whenOpen(keys, options, callSite);
    const take = (of: ResolvedLockOptions): Promise<readonly ReentryLevel[]> =>
      this.#whenOpen(keys, of, callSite);
    const { inTransactions } = this;
    return tracedAcquire(this.#calls.parts.clock, inTransactions.name, keys, options, take);
  }

  #whenOpen(
    keys: readonly string[],
    options: ResolvedLockOptions,
    callSite: string,
  ): Promise<readonly ReentryLevel[]> {
    // A call may arrive before the application has started.
    if (!this.#lifetime.isOpen) return this.open().then(() => this.#take(keys, options, callSite));
    return this.#take(keys, options, callSite);
  }

  #take(
    keys: readonly string[],
    options: ResolvedLockOptions,
    callSite: string,
  ): Promise<readonly ReentryLevel[]> {
    const transaction = currentTransaction();
    if (transaction === undefined) return new Acquisition(this.#calls, keys, options).take();
    return transaction.take(this.inTransactions, { keys, options, callSite });
  }

  /** @param callSite the label unless the options have one */
  #resolved(
    options: LockOptions | undefined,
    callSite?: string,
    template?: string,
  ): ResolvedLockOptions {
    return resolveLockOptions(options, this.#calls.parts.options, callSite, template);
  }

  /**
   * Records the lock of `acquire()` for later transactions, which need it only if there is a fence to claim. A lock for
   * the application's whole life is not meant for a transaction. The entry is added to the caller's context, so there
   * must be no earlier `await`.
   */
  #newEntry({ maxHoldMs }: ResolvedLockOptions): AcquiredEntry | undefined {
    const { fence } = this.inTransactions.transactionOptions;
    return fence !== undefined && maxHoldMs < Infinity ? this.#acquired.newEntry() : undefined;
  }

  /**
   * Adds the holder, if it can be found out (a single try must answer at once), and the call site to the error. A new
   * error, because the stack of the original begins at a timer or message, while this method is awaited by the caller,
   * so that V8 includes the caller in the stack.
   */
  async #explained(
    error: unknown,
    { waitMs }: ResolvedLockOptions,
    callSite?: string,
  ): Promise<unknown> {
    const asked = callSite === undefined ? '' : `; requested by ${callSite}`;
    if (error instanceof LockDeadlockError)
      return new LockDeadlockError(`${error.message}${asked}`, error.key as string, error.ring);
    const isFull = error instanceof LockQueueFullError;
    if (!isFull && !(error instanceof LockNotAcquiredError)) return error;
    const key = error.key as string;
    const waitedMs = isFull ? 0 : error.waitedMs;
    const leftMs = waitMs === 0 ? 0 : waitMs + ANSWER_GRACE_MS - waitedMs;
    const holder = await this.#holders.holderOf(key, leftMs);
    const has =
      holder === undefined
        ? ''
        : `; the holder is ${describedHolder(holder, this.#calls.parts.store.processId)}`;
    const message = `${error.message}${has}${asked}`;
    return isFull
      ? new LockQueueFullError(message, key, holder)
      : new LockNotAcquiredError(message, key, waitedMs, holder);
  }

  // ---- looking ----------------------------------------------------------------------------------------------

  /** The innermost lock of this async context, or the innermost one that has this key. */
  current(key?: string): Lock | undefined {
    return this.#calls.ambient.current(key);
  }

  /** @throws LockNotHeldError · LockLostError · LockStoreError */
  assertHeld(key?: string): void {
    this.#calls.ambient.assertHeld(key);
  }

  ping(): Promise<number> {
    return this.#operations.ping();
  }

  health(): Promise<LockHealth> {
    return this.#operations.health();
  }

  inspect(key: string): Promise<LockInfo | null> {
    return this.#operations.inspect(key);
  }

  list(pattern: string): AsyncIterable<LockInfo> {
    return this.#operations.list(pattern);
  }

  waits(pattern: string): Promise<readonly LockWait[]> {
    return this.#operations.waits(pattern);
  }

  overviews(patterns: readonly string[], most: number): Promise<(LockOverview | LockKeyError)[]> {
    return this.#operations.overviews(patterns, most);
  }

  forceRelease(key: string, leaseId?: string): Promise<boolean> {
    return this.#operations.forceRelease(key, leaseId);
  }

  /** Awaited before a call fails, because its caller may retry at once, and the event loop must keep turning. */
  #pause(): Promise<void> | undefined {
    return this.#calls.parts.loopTurn.pause();
  }

  /** For tests: everything must be zero when no call holds a lock or waits for one. */
  get residue(): { queues: number; tokens: number; timers: number } {
    const { parts, queues } = this.#calls;
    return { queues: queues.size, tokens: parts.tokens.size, timers: parts.scheduler.size };
  }
}

const NAMES_WITHOUT_BUSY = Object.keys(CALL_OPTIONS).filter((name) => name !== 'onBusy');

/** @throws LockConfigError if they are not an object, or have an onBusy, which would have no effect */
function assertOptionsOf(method: string, options: WithLockOptions | undefined): void {
  if (options !== undefined) assertIsObject(options, NAMES_WITHOUT_BUSY, remedyForCall);
  if (options?.onBusy === undefined) return;
  throw new LockConfigError(
    `Unknown option 'onBusy': ${method} takes none; use withLock, or tryAcquire, which gives null if somebody else has the lock`,
  );
}

/** @throws the error, unless somebody else has the lock and `onBusy` is a function, whose result is returned */
async function busyResult<T>(error: unknown, onBusy: WithLockOptions['onBusy']): Promise<T> {
  if (!(error instanceof LockNotAcquiredError) || typeof onBusy !== 'function') throw error;
  const { key, waitedMs, holder } = error;
  return (await onBusy({ key: key as string, waitedMs, holder })) as T;
}
