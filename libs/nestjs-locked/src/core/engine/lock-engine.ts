import { AcquiredLocks } from '../calls/acquired-locks.js';
import { Acquisition } from '../calls/acquisition.js';
import { inOrder } from '../keys/key-order.js';
import { CleanUp } from '../store/clean-up.js';
import { systemClock, type Clock } from '../time/clock.js';
import type { Hold } from '../lease/hold.js';
import { HeldLock } from '../calls/held-lock.js';
import { HolderLookup } from './holder-lookup.js';
import { QueuesByKey } from '../lease/queues-by-key.js';
import type { EngineParts } from '../lease/engine-parts.js';
import type { ReportLockEvent } from '../lock-events.js';
import type { LockInfo } from '../lock-info.js';
import { lockInfo } from '../store/lock-directory.js';
import { assertLockKey } from '../keys/lock-key.js';
import type { LockRunner } from './lock-runner.js';
import { AmbientHolds, type Section } from '../calls/ambient-holds.js';
import type { InboxMessage, LockStore, StoreListener } from '../store/lock-store.js';
import type { Lock } from '../lock.js';
import { LockAbortedError, LockNotAcquiredError } from '../lock.errors.js';
import { inNeutralContext } from '../runtime/neutral-context.js';
import {
  resolveLockOptions,
  type Keys,
  type LockOptions,
  type ResolvedLockOptions,
  type ResolvedServiceOptions,
  type WithLockOptions,
} from '../lock.options.js';
import {
  currentTransaction,
  registerLocks,
  keptSections,
  type TransactionalLocks,
} from '../calls/open-transaction.js';
import { Scheduler } from '../time/scheduler.js';
import { SuspendDetector } from '../time/suspend-detector.js';
import type { ResolvedTransactionOptions } from '../transaction.options.js';
import { TokenRegistry } from '../store/token-registry.js';
import { Watchdog } from '../lease/watchdog.js';

export interface LockEngineOptions {
  readonly store: LockStore;
  readonly options: ResolvedServiceOptions;
  readonly report: ReportLockEvent;
  /** Of this service, where there are several. */
  readonly name?: string;
  /** What keys begin with in the store. Undefined: the default. */
  readonly keyPrefix?: string;
  /** @default systemClock */
  readonly clock?: Clock;
  /** @default Math.random */
  readonly random?: () => number;
}

/** Everything that one lock service does, without Nest. */
export class LockEngine implements LockRunner, StoreListener, TransactionalLocks {
  readonly #parts: EngineParts;
  readonly #queues: QueuesByKey;
  readonly #scopes = new AmbientHolds(() => keptSections(this));
  readonly #acquired = new AcquiredLocks();
  readonly #suspends: SuspendDetector;
  readonly #holders: HolderLookup;
  #opening: Promise<void> | undefined;
  #isOpen = false;
  #leaveAmbience: () => void = () => {};
  /** Handed out and not yet released. */
  readonly #held = new Set<HeldLock>();
  #onIdle: () => void = () => {};
  #closed: Promise<void> | undefined;
  /** The same in every process, where it is the same service. */
  readonly orderedBy: string;
  readonly #keyPrefix: string | undefined;

  constructor({
    store,
    options,
    report,
    name = '',
    keyPrefix,
    clock = systemClock,
    random = Math.random,
  }: LockEngineOptions) {
    this.orderedBy = `${keyPrefix ?? ''} ${name}`;
    this.#keyPrefix = keyPrefix;
    const watchdog = new Watchdog(store, clock);
    const scheduler = new Scheduler(clock, {
      before: () => this.#noticeSuspend(),
      after: () => watchdog.flush(),
    });
    this.#suspends = new SuspendDetector(clock);
    this.#holders = new HolderLookup(store.directory, clock);
    this.#parts = {
      options,
      store,
      clock,
      scheduler,
      watchdog,
      report: reportSafely(report),
      cleanUp: new CleanUp(store, clock, scheduler),
      tokens: new TokenRegistry(store.processId),
      jitter: (ms) => random() * ms,
      noticeSuspend: () => this.#noticeSuspend(),
    };
    this.#queues = new QueuesByKey(this.#parts);
  }

  /** @throws LockStoreError · LockConfigError · LockAbortedError if it is closed before, or meanwhile */
  async open(): Promise<void> {
    this.#assertNotClosed();
    this.#opening ??= inNeutralContext(() => this.#parts.store.open(this));
    await this.#opening;
    this.#assertNotClosed();
    if (this.#isOpen) return;
    this.#isOpen = true;
    this.#leaveAmbience = registerLocks(this);
  }

  #assertNotClosed(): void {
    if (this.#closed !== undefined) {
      throw new LockAbortedError('Cannot open the locks: the application is shutting down');
    }
  }

  /** Waits for the lock. @throws LockNotAcquiredError and the rest of the family */
  async acquire(keys: Keys, options?: LockOptions): Promise<HeldLock> {
    const resolved = resolveLockOptions(options, this.#parts.options);
    const acquiring = this.#acquire(keys, resolved);
    this.#noteAcquired(acquiring, resolved);
    return acquiring;
  }

  async #acquire(keys: Keys, options: ResolvedLockOptions): Promise<HeldLock> {
    try {
      return this.#track(await this.#take(keys, options, 'acquire'));
    } catch (error) {
      throw await this.#named(error, options);
    }
  }

  /** @param options `waitMs` is 0 unless given @returns null if somebody else has it */
  async tryAcquire(keys: Keys, options?: LockOptions): Promise<HeldLock | null> {
    const once = { ...options, waitMs: options?.waitMs ?? 0 };
    const resolved = resolveLockOptions(once, this.#parts.options);
    const acquiring = this.#tryAcquire(keys, resolved);
    this.#noteAcquired(acquiring, resolved);
    return acquiring;
  }

  async #tryAcquire(keys: Keys, options: ResolvedLockOptions): Promise<HeldLock | null> {
    try {
      return this.#track(await this.#take(keys, options, 'tryAcquire'));
    } catch (error) {
      if (error instanceof LockNotAcquiredError) return null;
      throw error;
    }
  }

  /** Only a fence counts on being claimed; a lock for the application's life is none for a transaction. */
  #noteAcquired(acquiring: Promise<HeldLock | null>, { maxHoldMs }: ResolvedLockOptions): void {
    if (this.transactionOptions.fence === undefined || maxHoldMs === Infinity) return;
    this.#acquired.note(acquiring);
  }

  async withLock<T>(
    keys: Keys,
    options: WithLockOptions,
    work: (lock: Lock) => T | Promise<T>,
    callSite = 'withLock',
  ): Promise<T> {
    const resolved = resolveLockOptions(options, this.#parts.options);
    let sections: readonly Section[];
    try {
      sections = await this.#take(keys, resolved, callSite);
    } catch (error) {
      if (error instanceof LockNotAcquiredError && options.onBusy === 'skip') return undefined as T;
      return busyResult<T>(await this.#named(error, resolved), options.onBusy);
    }
    return this.#run(sections, work);
  }

  async #run<T>(sections: readonly Section[], work: (lock: Lock) => T | Promise<T>): Promise<T> {
    const lock = this.#track(sections);
    // The work's own result and error win over whatever becomes of the release: `settle` never throws.
    try {
      const transaction = currentTransaction();
      const run = async (): Promise<T> => this.#scopes.run(lock, sections, () => work(lock));
      return await (transaction === undefined ? run() : transaction.during(lock.keys, run));
    } finally {
      await this.#leave(lock);
    }
  }

  /** The innermost lock of this async context, or the one that has this key. */
  current(key?: string): Lock | undefined {
    return this.#scopes.current(key);
  }

  /** @returns null if nobody holds it @throws LockStoreError */
  async inspect(key: string): Promise<LockInfo | null> {
    assertLockKey(key);
    const record = await this.#parts.store.directory.inspect(key);
    return record === undefined ? null : lockInfo(record);
  }

  async *list(pattern: string): AsyncIterable<LockInfo> {
    for await (const key of this.#parts.store.directory.list(pattern)) {
      const info = await this.inspect(key);
      if (info !== null) yield info;
    }
  }

  /** @throws LockStoreError */
  async forceRelease(key: string): Promise<boolean> {
    assertLockKey(key);
    return this.#parts.store.directory.revoke(key);
  }

  async #take(
    asked: Keys,
    options: ResolvedLockOptions,
    callSite: string,
  ): Promise<readonly Section[]> {
    const keys = inOrder(asked);
    if (!this.#isOpen) await this.open(); // somebody locks before the application has started
    const transaction = currentTransaction();
    if (transaction === undefined) return this.take(keys, options);
    return transaction.take(this, { keys, options, callSite });
  }

  // ---- for the transactions of an ORM -----------------------------------------------------------------------

  get transactionOptions(): ResolvedTransactionOptions {
    return this.#parts.options.transactions;
  }

  get report(): ReportLockEvent {
    return this.#parts.report;
  }

  heldHere(): readonly Hold[] {
    return this.#scopes.ownHolds();
  }

  acquiredHere(): readonly Hold[] {
    return this.#acquired.here();
  }

  /** As it is, or as no key is written: services with different prefixes may share a table. */
  fenceKey(key: string): string {
    return this.#keyPrefix === undefined ? key : `${this.#keyPrefix}{${key}}`;
  }

  take(keys: readonly string[], options: ResolvedLockOptions): Promise<readonly Section[]> {
    return new Acquisition(this.#parts, this.#queues, this.#scopes, keys, options).take();
  }

  async holding<T>(
    keys: readonly string[],
    options: ResolvedLockOptions,
    work: () => Promise<T>,
  ): Promise<T> {
    return this.#run(await this.take(inOrder(keys), options), work);
  }

  /** A single try is meant to answer at once. */
  async #named(error: unknown, { waitMs }: ResolvedLockOptions): Promise<unknown> {
    if (!(error instanceof LockNotAcquiredError) || waitMs === 0) return error;
    return this.#holders.named(error);
  }

  #track(sections: readonly Section[]): HeldLock {
    const onReleased = (): void => {
      this.#held.delete(lock);
      if (this.#held.size === 0) this.#onIdle();
    };
    const lock = new HeldLock(sections, this.#scopes, onReleased, (holds, work) =>
      this.#runInTransaction(holds, work),
    );
    this.#held.add(lock);
    return lock;
  }

  async #runInTransaction<T>(holds: readonly Hold[], work: () => T | Promise<T>): Promise<T> {
    const transaction = currentTransaction();
    if (transaction === undefined) return work();
    await transaction.adopt(this, holds, 'lock.run');
    return transaction.during(
      holds.map(({ key }) => key),
      work,
    );
  }

  async #leave(lock: HeldLock): Promise<void> {
    const settled = lock.settle();
    if (lock.isOutlived) this.#parts.report({ type: 'outlived', key: lock.key });
    else if (this.#parts.options.awaitRelease) await settled;
  }

  /** No new locks; waiters are sent away. Holds stay, and are renewed. */
  drain(): void {
    inNeutralContext(() => this.#queues.close());
  }

  /**
   * Waits for the holders, at most `graceMs`; then their signals abort and their leases are left to run out, because
   * their work may still be going on.
   */
  close(graceMs: number): Promise<void> {
    this.#closed ??= inNeutralContext(() => this.#close(graceMs));
    return this.#closed;
  }

  async #close(graceMs: number): Promise<void> {
    this.#queues.close();
    if (this.#held.size > 0) await this.#idle(graceMs);
    this.#queues.close(); // those who came because they held another lock
    for (const lease of this.#queues.leases()) lease.abandonHold();
    this.#leaveAmbience();
    await this.#parts.cleanUp.close();
    await this.#parts.store.close();
    this.#parts.scheduler.close();
  }

  #idle(limitMs: number): Promise<void> {
    return new Promise((resolve) => {
      const cancel = this.#parts.clock.after(limitMs, resolve);
      this.#onIdle = () => {
        cancel();
        resolve();
      };
    });
  }

  message(message: InboxMessage): void {
    inNeutralContext(() => this.#receive(message));
  }

  #receive(message: InboxMessage): void {
    const { scheduler, tokens, store } = this.#parts;
    scheduler.catchUp();
    const { kind, key, token } = message;
    const owner = tokens.ownerOf(token);
    if (owner !== undefined) {
      owner.onMessage(message);
    } else if ((kind === 'grant' || kind === 'wanted') && tokens.isOwn(token)) {
      // A token of ours that nobody here waits or works with: a clean-up was lost. Others must not wait for its end.
      void store.release({ key, token, used: 0 });
    }
  }

  reconnected(): void {
    inNeutralContext(() => {
      this.#parts.cleanUp.lookAgain();
      this.#queues.lookAgain();
    });
  }

  inboxLost(): void {
    inNeutralContext(() => this.#queues.lookAgain());
  }

  /** For tests: nothing may be left when nobody holds or waits. */
  get residue(): { queues: number; tokens: number; timers: number } {
    const { tokens, scheduler } = this.#parts;
    return { queues: this.#queues.size, tokens: tokens.size, timers: scheduler.size };
  }

  mayEvict(policy: string): void {
    this.#parts.report({ type: 'eviction', policy });
  }

  #noticeSuspend(): void {
    const sleptMs = this.#suspends.sleptMs();
    if (sleptMs > 0) for (const lease of this.#queues.leases()) lease.suspect(sleptMs);
  }
}

/** A logger that throws must not keep the answers from those who come after. */
function reportSafely(report: ReportLockEvent): ReportLockEvent {
  return (event) => {
    try {
      report(event);
    } catch {
      // Nobody is left to be told: what would tell has failed.
    }
  };
}

/** @throws the error, unless it says that somebody else has the lock and `onBusy` has an answer to that */
async function busyResult<T>(error: unknown, onBusy: WithLockOptions['onBusy']): Promise<T> {
  if (!(error instanceof LockNotAcquiredError) || typeof onBusy !== 'function') throw error;
  const { key, waitedMs, holder } = error;
  return (await onBusy({ key: key as string, waitedMs, holder })) as T;
}
