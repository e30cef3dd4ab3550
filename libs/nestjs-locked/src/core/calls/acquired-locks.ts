import { AsyncLocalStorage } from 'node:async_hooks';
import type { Hold } from '../queue/hold.js';
import type { HeldLock } from './held-lock.js';

/**
 * The entries of the current async context, for all lock services, because every storage in use makes every promise
 * slower. This is no `ContextVariable`: `enterWith` in the work of a call would end with that work.
 */
const ENTRIES = new AsyncLocalStorage<readonly AcquiredEntry[]>();

/** The entry of one `acquire()` call, which gets its lock later. */
export class AcquiredEntry {
  #lock: HeldLock | undefined;
  #isLeft = false;

  constructor(readonly owner: AcquiredLocks) {}

  take(lock: HeldLock): void {
    this.#lock = lock;
  }

  /** Called if the call did not get its lock. */
  leave(): void {
    this.#isLeft = true;
  }

  get holds(): readonly Hold[] {
    return this.#lock?.holds ?? [];
  }

  /** A lost lock is in use until it is released, because its caller may not know of the loss. */
  get isInUse(): boolean {
    return !this.#isLeft && this.#lock?.isReleased !== true;
  }
}

/**
 * The locks of `acquire()`, by the async context that requested them. No call joins them and they guard no transaction;
 * the record only shows that they were acquired before what comes later in the same context.
 */
export class AcquiredLocks {
  /**
   * Adds an entry to the context of the caller. Must be called before the first `await`, after which code runs in a
   * separate context.
   */
  newEntry(): AcquiredEntry {
    const entry = new AcquiredEntry(this);
    ENTRIES.enterWith([...entriesInUse(), entry]);
    return entry;
  }

  here(): readonly Hold[] {
    return entriesInUse().flatMap(({ owner, holds }) => (owner === this ? holds : []));
  }
}

function entriesInUse(): readonly AcquiredEntry[] {
  return (ENTRIES.getStore() ?? []).filter(({ isInUse }) => isInUse);
}
