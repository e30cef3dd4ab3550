import { assertIsObject } from '../arguments.js';
import { type AcquiredEntry, AcquiredLocks } from '../calls/acquired-locks.js';
import { Acquisition, type CallParts } from '../calls/acquisition.js';
import { AmbientHolds } from '../calls/ambient-holds.js';
import { HandedOutLocks } from '../calls/handed-out-locks.js';
import type { HeldLock } from '../calls/held-lock.js';
import type { ReentryLevel } from '../calls/reentry-level.js';
import { currentTransaction, keptLevels } from '../calls/transaction-registry.js';
import { inOrder } from '../keys/key-order.js';
import { LockConfigError, LockNotAcquiredError, type LockStoreError } from '../lock.errors.js';
import type { Lock } from '../lock.js';
import type { LockKeys, LockOptions, WithLockOptions } from '../lock.options.js';
import type { LockInfo } from '../lock-info.js';
import { QueuesByKey } from '../queue/queues-by-key.js';
import { ANSWER_GRACE_MS } from '../queue/waiting-call.js';
import { type ResolvedLockOptions, resolveLockOptions } from '../resolved.options.js';
import { systemClock } from '../time/clock.js';
import { assembleParts, type EngineSupplies } from './assemble-parts.js';
import { EngineInbox } from './engine-inbox.js';
import { EngineLifetime } from './engine-lifetime.js';
import { describedHolder, HolderLookup } from './holder-lookup.js';
import { LockOperations } from './lock-operations.js';
import { IS_LOCK_ENGINE, type LockRunner } from './lock-runner.js';
import { LocksInTransactions, type ServiceName } from './locks-in-transactions.js';

/** `clock` and `random` are for tests; the defaults are the system's. */
export type LockEngineOptions = Omit<EngineSupplies, 'clock' | 'random'> &
  Partial<EngineSupplies> &
  ServiceName;

/**
 * Everything that one lock service does, without Nest; `core/README.md` describes it on one page.
 *
 * A call comes in here with its keys and options, and gets its re-entry levels from an `Acquisition`. Inside an open
 * transaction it gets them from that transaction instead, which knows whether a lock can be taken now, and keeps it
 * until the transaction has ended.
 */
export class LockEngine implements LockRunner {
  readonly [IS_LOCK_ENGINE] = true;
  /** The locks of this service, as the transactions of an ORM see them. */
  readonly inTransactions: LocksInTransactions;
  readonly #calls: CallParts;
  readonly #acquired = new AcquiredLocks();
  readonly #handedOut: HandedOutLocks;
  readonly #holders: HolderLookup;
  readonly #operations: LockOperations;
  readonly #lifetime: EngineLifetime;

  constructor({
    clock = systemClock,
    random = Math.random,
    name,
    keyPrefix,
    ...supplies
  }: LockEngineOptions) {
    // The parts and the queues need each other: when the machine has slept, the parts ask the queues for their leases.
    const parts = assembleParts({ ...supplies, clock, random }, () => queues);
    const queues = new QueuesByKey(parts);
    const ambient = new AmbientHolds(() => keptLevels(this.inTransactions));
    this.#calls = { parts, queues, ambient };
    this.#handedOut = new HandedOutLocks(parts, ambient, () => this.inTransactions);
    this.inTransactions = new LocksInTransactions(this.#calls, this.#handedOut, this.#acquired, {
      name,
      keyPrefix,
    });
    this.#holders = new HolderLookup(parts.store.inspector, clock);
    const inbox = new EngineInbox(parts, queues);
    this.#lifetime = new EngineLifetime(parts, queues, inbox, this.#handedOut, this.inTransactions);
    this.#operations = new LockOperations(parts, this.#lifetime, inbox);
  }

  // ---- beginning and end ------------------------------------------------------------------------------------

  /** @throws LockStoreError · LockConfigError · LockAbortedError if it is closed before, or meanwhile */
  open(): Promise<void> {
    return this.#lifetime.open();
  }

  /** Goes on looking for the store after `open` has failed. Until it is there, every call fails at once. */
  openLater(cause: LockStoreError): void {
    this.#lifetime.openLater(cause);
  }

  /** Gives no new locks, and rejects the calls that wait. Holds stay, and are renewed. */
  drain(): void {
    this.#lifetime.drain();
  }

  /**
   * Waits for the holders. Then their signals abort, and their leases are left to run out, because their work may still
   * be going on.
   *
   * @param limitMs how long all of this may take
   */
  close(limitMs: number): Promise<void> {
    return this.#lifetime.close(limitMs);
  }

  // ---- locking ----------------------------------------------------------------------------------------------

  /** Waits for the lock. @throws LockNotAcquiredError and the rest of the family */
  async acquire(keys: LockKeys, options?: LockOptions): Promise<HeldLock> {
    assertOptionsOf('acquire', options);
    const resolved = this.#resolved(options);
    const entry = this.#newEntry(resolved);
    try {
      const levels = await this.#levelsOf(keys, resolved, 'acquire');
      return this.#handOut(levels, entry);
    } catch (error) {
      entry?.leave();
      await this.#pause();
      throw await this.#explained(error, resolved);
    }
  }

  /** @param options `waitMs` is 0 unless it is given @returns null if somebody else has the lock */
  async tryAcquire(keys: LockKeys, options?: LockOptions): Promise<HeldLock | null> {
    assertOptionsOf('tryAcquire', options);
    const resolved = resolveLockOptions(options, { ...this.#calls.parts.options, waitMs: 0 });
    const entry = this.#newEntry(resolved);
    try {
      const levels = await this.#levelsOf(keys, resolved, 'tryAcquire');
      return this.#handOut(levels, entry);
    } catch (error) {
      entry?.leave();
      await this.#pause();
      if (error instanceof LockNotAcquiredError) return null;
      throw error;
    }
  }

  #handOut(levels: readonly ReentryLevel[], entry: AcquiredEntry | undefined): HeldLock {
    const lock = this.#handedOut.handOut(levels);
    entry?.take(lock);
    return lock;
  }

  async withLock<T>(
    keys: LockKeys,
    options: WithLockOptions,
    work: (lock: Lock) => T | Promise<T>,
    callSite?: string,
  ): Promise<T> {
    const resolved = this.#resolved(options);
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

  /** @returns one re-entry level for each key, all of them held */
  #levelsOf(
    asked: LockKeys,
    options: ResolvedLockOptions,
    callSite: string,
  ): Promise<readonly ReentryLevel[]> {
    const keys = inOrder(asked);
    // A call may come before the application has started.
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

  #resolved(options: LockOptions | undefined): ResolvedLockOptions {
    return resolveLockOptions(options, this.#calls.parts.options);
  }

  /**
   * Later transactions must know of the lock only if there is a fence for them to claim. A lock for the application's
   * whole life is not meant for a transaction. The entry is in the context of the caller, which must not have been left
   * by an `await`.
   */
  #newEntry({ maxHoldMs }: ResolvedLockOptions): AcquiredEntry | undefined {
    const { fence } = this.inTransactions.transactionOptions;
    return fence !== undefined && maxHoldMs < Infinity ? this.#acquired.newEntry() : undefined;
  }

  /**
   * The error with what its reader wants to know: who has the lock, if that can be found out (a single try is meant to
   * answer at once), and who asked for it. It is made here because the stack of the first one begins at a timer or a
   * message, while this method is awaited by the caller, whom V8 finds in that way.
   */
  async #explained(
    error: unknown,
    { waitMs }: ResolvedLockOptions,
    callSite?: string,
  ): Promise<unknown> {
    if (!(error instanceof LockNotAcquiredError)) return error;
    const key = error.key as string;
    const leftMs = waitMs === 0 ? 0 : waitMs + ANSWER_GRACE_MS - error.waitedMs;
    const holder = await this.#holders.holderOf(key, leftMs);
    const has = holder === undefined ? '' : `; the holder is ${describedHolder(holder)}`;
    const asked = callSite === undefined ? '' : `; asked for by ${callSite}`;
    return new LockNotAcquiredError(`${error.message}${has}${asked}`, key, error.waitedMs, holder);
  }

  // ---- looking ----------------------------------------------------------------------------------------------

  /** The innermost lock of this async context, or the one that has this key. */
  current(key?: string): Lock | undefined {
    return this.#calls.ambient.current(key);
  }

  ping(): Promise<number> {
    return this.#operations.ping();
  }

  inspect(key: string): Promise<LockInfo | null> {
    return this.#operations.inspect(key);
  }

  list(pattern: string): AsyncIterable<LockInfo> {
    return this.#operations.list(pattern);
  }

  forceRelease(key: string): Promise<boolean> {
    return this.#operations.forceRelease(key);
  }

  /** Before a call fails: its caller may come again at once, and the event loop must go on turning. */
  #pause(): Promise<void> | undefined {
    return this.#calls.parts.loopTurn.pause();
  }

  /** For tests: nothing may be left when no call holds a lock or waits for one. */
  get residue(): { queues: number; tokens: number; timers: number } {
    const { parts, queues } = this.#calls;
    return { queues: queues.size, tokens: parts.tokens.size, timers: parts.scheduler.size };
  }
}

/** @throws LockConfigError if they are none, or have an onBusy, which would do nothing */
function assertOptionsOf(method: string, options: WithLockOptions | undefined): void {
  if (options !== undefined) assertIsObject(options);
  if (options?.onBusy === undefined) return;
  throw new LockConfigError(
    `Unknown option 'onBusy': ${method} takes none; use withLock, or tryAcquire, which gives null if somebody else has the lock`,
  );
}

/** @throws the error, unless it says that somebody else has the lock and `onBusy` is a function that answers it */
async function busyResult<T>(error: unknown, onBusy: WithLockOptions['onBusy']): Promise<T> {
  if (!(error instanceof LockNotAcquiredError) || typeof onBusy !== 'function') throw error;
  const { key, waitedMs, holder } = error;
  return (await onBusy({ key: key as string, waitedMs, holder })) as T;
}
