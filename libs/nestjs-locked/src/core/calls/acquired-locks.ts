import { AsyncLocalStorage } from 'node:async_hooks';
import type { Hold } from '../lease/hold.js';
import type { HeldLock } from './held-lock.js';

interface Place {
  lock: HeldLock | undefined;
  isEmpty: boolean;
}

/**
 * The locks of `acquire()`, by the async context that asked for them. No call joins them and no transaction is guarded
 * by them; it is only known that they were acquired before what comes later in the same context.
 */
export class AcquiredLocks {
  readonly #storage = new AsyncLocalStorage<readonly Place[]>();

  /**
   * Notes the lock for the context of the caller. It must be called before the first `await`, because what comes after
   * that runs in a context of its own.
   */
  note(acquiring: Promise<HeldLock | null>): void {
    const place: Place = { lock: undefined, isEmpty: false };
    this.#storage.enterWith([...this.#present(), place]);
    acquiring.then(
      (lock) => {
        place.lock = lock ?? undefined;
        place.isEmpty = lock === null;
      },
      () => (place.isEmpty = true),
    );
  }

  here(): readonly Hold[] {
    return this.#present().flatMap(({ lock }) => lock?.holds ?? []);
  }

  #present(): readonly Place[] {
    const places = this.#storage.getStore() ?? [];
    return places.filter(({ lock, isEmpty }) => !isEmpty && lock?.isHeld !== false);
  }
}
