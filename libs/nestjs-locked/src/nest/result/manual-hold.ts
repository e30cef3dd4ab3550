import { AsyncLocalStorage } from 'node:async_hooks';

/** Takes the lock, runs the work, releases. The signal ends the wait. */
export type Enter = (work: () => unknown, signal?: AbortSignal) => Promise<unknown>;

/** Why a hold ended early; an object, because anything can be thrown. */
export interface Failure {
  readonly error: unknown;
}

/**
 * A hold whose end is decided outside of the work that took it: when a stream has ended, or when nobody is
 * subscribed any more.
 */
export class ManualHold {
  /** What belongs to the hold runs where the lock was taken, so that it sees the hold as its own. */
  readonly run = AsyncLocalStorage.snapshot();
  readonly #leave: () => void;
  readonly #fail: (error: Error) => void;
  readonly #released: () => Promise<unknown>;
  #isOver = false;

  /**
   * @param leave ends the work
   * @param fail ends the work with an error
   * @param released settles when the lock was given back
   */
  constructor(leave: () => void, fail: (error: Error) => void, released: () => Promise<unknown>) {
    this.#leave = leave;
    this.#fail = fail;
    this.#released = released;
  }

  get isOver(): boolean {
    return this.#isOver;
  }

  /**
   * Gives the lock back and waits for that. Later calls do nothing. Rejects only if there was no failure, with what
   * the lock service says about a work that succeeded; otherwise the failure is the caller's to pass on.
   */
  async end(failure?: Failure): Promise<void> {
    if (this.#isOver) return;
    this.#isOver = true;
    if (failure === undefined) {
      this.#leave();
      await this.#released();
    } else {
      this.#fail(failure.error as Error);
      await this.#released().catch(() => {
        // The failure itself, or what came of it.
      });
    }
  }
}

/** The lock was not free, and the caller said what to do then: what that gave. */
export interface Instead {
  readonly instead: unknown;
}

/** Takes the lock and keeps it until `end()`. */
export function openManualHold(enter: Enter): Promise<ManualHold | Instead> {
  return new Promise((resolve, reject) => {
    const released = enter(
      () =>
        new Promise<void>((leave, fail) => resolve(new ManualHold(leave, fail, () => released))),
    );
    released.then((instead) => resolve({ instead }), reject); // too late if the lock was taken
  });
}
