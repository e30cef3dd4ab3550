import type { HandedOutLocks } from '../calls/handed-out-locks.js';
import type { TransactionalLocks } from '../calls/open-transaction.js';
import { registerLocks } from '../calls/transaction-registry.js';
import type { EngineParts } from '../lease/engine-parts.js';
import { LockAbortedError, LockError, LockStoreError } from '../lock.errors.js';
import type { QueuesByKey } from '../queue/queues-by-key.js';
import { inNeutralContext } from '../runtime/neutral-context.js';
import { atMost } from '../time/at-most.js';
import type { EngineInbox } from './engine-inbox.js';

/** The pause before the next attempt to open the store. */
const RETRY_MS = 1_000;

/** The longest part of the time for closing that is reserved for the store. */
const LAST_WORDS_MS = 1_000;

/** The part of the time for closing that is reserved for the store: its last tenth, at most a second. */
function lastWordsMs(limitMs: number): number {
  return Math.min(limitMs / 10, LAST_WORDS_MS);
}

/** How an engine starts, and how it ends with the application. */
export class EngineLifetime {
  readonly #parts: EngineParts;
  readonly #queues: QueuesByKey;
  readonly #inbox: EngineInbox;
  readonly #handedOut: HandedOutLocks;
  readonly #inTransactions: TransactionalLocks;
  #opening: Promise<void> | undefined;
  /** Whether the store was unavailable at the start and is still being tried. */
  #isLate = false;
  #isOpen = false;
  #endPause: () => void = () => {};
  /** Called when the locks are closed; the result, when none of them is in use any more. */
  #closeLocks: () => () => void = () => () => {};
  #closed: Promise<void> | undefined;

  constructor(
    parts: EngineParts,
    queues: QueuesByKey,
    inbox: EngineInbox,
    handedOut: HandedOutLocks,
    inTransactions: TransactionalLocks,
  ) {
    this.#parts = parts;
    this.#queues = queues;
    this.#inbox = inbox;
    this.#handedOut = handedOut;
    this.#inTransactions = inTransactions;
  }

  get isOpen(): boolean {
    return this.#isOpen;
  }

  /** @throws LockStoreError · LockConfigError · LockAbortedError if it is already closed, or is closed meanwhile */
  async open(): Promise<void> {
    this.#assertNotClosed();
    if (this.#isLate) this.#parts.awaited.throwError();
    this.#opening ??= inNeutralContext(() => this.#openStore());
    await this.#opening;
    this.#assertNotClosed();
    if (this.#isOpen) return;
    this.#isOpen = true;
    if (this.#parts.options.firstLeaseMs === 'learned') this.#parts.stalls.start();
    this.#closeLocks = registerLocks(this.#inTransactions);
  }

  async #openStore(): Promise<void> {
    const { store, awaited } = this.#parts;
    try {
      await store.open(this.#inbox);
      awaited.ends();
    } finally {
      awaited.close();
    }
  }

  /** Keeps trying to open the store after `open` has failed. Until it is open, every call fails at once. */
  openLater(cause: LockStoreError): void {
    this.#isLate = true;
    inNeutralContext(() => void this.#openLater(cause));
  }

  async #openLater(cause: LockStoreError): Promise<void> {
    const { awaited, clock } = this.#parts;
    this.#noteFailure(cause);
    awaited.reportNow();
    while (this.#closed === undefined) {
      try {
        this.#opening = this.#openStore();
        await this.#opening;
        this.#isLate = false;
        return await this.open();
      } catch (error) {
        if (this.#closed !== undefined) return; // the failure says nothing about the store
        // Even a missing right is retried, because it can be granted later.
        if (error instanceof LockError) this.#noteFailure(error);
        const ended = new Promise<void>((resolve) => (this.#endPause = resolve));
        await atMost(clock, RETRY_MS, ended);
      }
    }
  }

  /** A store that tells while it is opened why it cannot be reached has told the reason; a refusal is another. */
  #noteFailure(error: LockError): void {
    const { awaited } = this.#parts;
    const isTold = error instanceof LockStoreError && awaited.isKnown;
    if (!isTold) awaited.begins(asStoreError(error));
  }

  #assertNotClosed(): void {
    if (this.#closed !== undefined) {
      throw new LockAbortedError('Cannot open the locks: the application is shutting down');
    }
  }

  /** Grants no new locks, and rejects waiting calls. Holds are kept and renewed. */
  drain(): void {
    inNeutralContext(() => this.#queues.close());
  }

  /**
   * Waits for the holders. Then their signals abort, and their leases are left to expire, because their work may still
   * be running.
   *
   * @param limitMs the total time limit, whose last tenth, at most a second, is reserved for the last commands to Redis
   */
  close(limitMs: number): Promise<void> {
    this.#closed ??= inNeutralContext(() => this.#close(limitMs));
    return this.#closed;
  }

  async #close(limitMs: number): Promise<void> {
    const { clock, cleanUp, outages, silences, refusals, backupAway, stalls, store, scheduler } =
      this.#parts;
    const until = clock.now() + limitMs;
    this.#endPause();
    this.#queues.close();
    await this.#handedOut.idle(limitMs - lastWordsMs(limitMs));
    this.#queues.close(); // calls accepted because their work held another lock
    for (const occupancy of this.#queues.occupancies()) occupancy.abandonHold();
    // Work that is still running must not commit without its lock.
    this.#handedOut.whenIdle(this.#closeLocks());
    const leftMs = (): number => Math.max(0, until - clock.now());
    await atMost(clock, leftMs(), Promise.all([cleanUp.close(), stalls.close()]));
    await store.close(leftMs());
    this.#inbox.close();
    outages.close();
    silences.close();
    refusals.close();
    backupAway.close();
    scheduler.close();
  }
}

function asStoreError(error: LockError): LockStoreError {
  if (error instanceof LockStoreError) return error;
  return new LockStoreError(error.message, undefined, { cause: error });
}
