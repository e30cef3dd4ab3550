import type { HandedOutLocks } from '../calls/handed-out-locks.js';
import type { TransactionalLocks } from '../calls/open-transaction.js';
import { registerLocks } from '../calls/transaction-registry.js';
import type { EngineParts } from '../lease/engine-parts.js';
import type { QueuesByKey } from '../lease/queues-by-key.js';
import { LockAbortedError } from '../lock.errors.js';
import { inNeutralContext } from '../runtime/neutral-context.js';
import type { EngineInbox } from './engine-inbox.js';

/** How an engine starts, and how it ends with the application. */
export class EngineLifetime {
  readonly #parts: EngineParts;
  readonly #queues: QueuesByKey;
  readonly #inbox: EngineInbox;
  readonly #handedOut: HandedOutLocks;
  readonly #inTransactions: TransactionalLocks;
  #opening: Promise<void> | undefined;
  #isOpen = false;
  #unregister: () => void = () => {};
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

  /** @throws LockStoreError · LockConfigError · LockAbortedError if it is closed before, or meanwhile */
  async open(): Promise<void> {
    this.#assertNotClosed();
    this.#opening ??= inNeutralContext(() => this.#parts.store.open(this.#inbox));
    await this.#opening;
    this.#assertNotClosed();
    if (this.#isOpen) return;
    this.#isOpen = true;
    this.#unregister = registerLocks(this.#inTransactions);
  }

  #assertNotClosed(): void {
    if (this.#closed !== undefined) {
      throw new LockAbortedError('Cannot open the locks: the application is shutting down');
    }
  }

  /** Gives no new locks, and rejects the calls that wait. Holds stay, and are renewed. */
  drain(): void {
    inNeutralContext(() => this.#queues.close());
  }

  /**
   * Waits for the holders, for `graceMs` at most. Then their signals abort, and their leases are left to run out,
   * because their work may still be going on.
   */
  close(graceMs: number): Promise<void> {
    this.#closed ??= inNeutralContext(() => this.#close(graceMs));
    return this.#closed;
  }

  async #close(graceMs: number): Promise<void> {
    this.#queues.close();
    await this.#handedOut.idle(graceMs);
    this.#queues.close(); // calls that came because their work held another lock
    for (const lease of this.#queues.leases()) lease.abandonHold();
    this.#unregister();
    await this.#parts.cleanUp.close();
    await this.#parts.store.close();
    this.#parts.scheduler.close();
  }
}
