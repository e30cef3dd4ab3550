import { AsyncLocalStorage } from 'node:async_hooks';
import type { Hold } from '../queue/hold.js';
import type { HeldLock } from './held-lock.js';

/** Where a lock of `acquire()` is noted when the call has it. */
export class AcquiredEntry {
  #lock: HeldLock | undefined;
  #isLeft = false;

  take(lock: HeldLock): void {
    this.#lock = lock;
  }

  /** The call did not get its lock. */
  leave(): void {
    this.#isLeft = true;
  }

  get holds(): readonly Hold[] {
    return this.#lock?.holds ?? [];
  }

  /** A lock that was lost is in use until it is released: its caller may not know of the loss. */
  get isInUse(): boolean {
    return !this.#isLeft && this.#lock?.isReleased !== true;
  }
}

/**
 * The locks of `acquire()`, by the async context that asked for them. No call joins them and no transaction is guarded
 * by them; it is only known that they were acquired before what comes later in the same context.
 */
export class AcquiredLocks {
  readonly #storage = new AsyncLocalStorage<readonly AcquiredEntry[]>();

  /**
   * Adds an entry for a lock in the context of the caller. It must be called before the first `await`, because what
   * comes after that runs in a context of its own.
   */
  newEntry(): AcquiredEntry {
    const entry = new AcquiredEntry();
    this.#storage.enterWith([...this.#present(), entry]);
    return entry;
  }

  here(): readonly Hold[] {
    return this.#present().flatMap(({ holds }) => holds);
  }

  #present(): readonly AcquiredEntry[] {
    return (this.#storage.getStore() ?? []).filter(({ isInUse }) => isInUse);
  }
}
