import { contextHere } from '../../core/context-here.js';

/** Takes the lock, runs the work and releases the lock. The signal ends the wait. */
export type Enter = (work: () => unknown, signal?: AbortSignal) => Promise<unknown>;

/** Calls back when it is too late to begin reading a result, such as after the response was sent without it. */
export type WhenTooLateToRead = (leave: () => void) => void;

/** The error that ended a hold early; an object, because anything can be thrown. */
export interface Failure {
  readonly error: unknown;
}

/** A hold that ends later than the work that took it: when a stream has ended, or with the last subscription. */
export class ManualHold {
  /** Runs a function in the async context in which the lock was taken, so that it runs under the hold. */
  readonly run = contextHere();
  readonly whenTooLateToRead: WhenTooLateToRead;
  readonly #leave: () => void;
  readonly #fail: (error: Error) => void;
  readonly #released: () => Promise<unknown>;
  #isOver = false;

  /**
   * @param leave ends the work
   * @param fail ends the work with an error
   * @param released settles when the lock was released
   */
  constructor(
    leave: () => void,
    fail: (error: Error) => void,
    released: () => Promise<unknown>,
    whenTooLateToRead: WhenTooLateToRead = () => {},
  ) {
    this.whenTooLateToRead = whenTooLateToRead;
    this.#leave = leave;
    this.#fail = fail;
    this.#released = released;
  }

  get isOver(): boolean {
    return this.#isOver;
  }

  /**
   * Releases the lock and waits for the release. Later calls do nothing. It rejects only if there was no failure, with
   * the error of the lock service for successful work; a failure is left to the caller to report.
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
        // This is the failure itself, or a consequence of it.
      });
    }
  }
}

/** The result of `onBusy`, because the lock was not free. */
export interface Instead {
  readonly instead: unknown;
}

/** Takes the lock and keeps it until `end()`. The signal ends the wait. */
export function openManualHold(enter: Enter, signal: AbortSignal): Promise<ManualHold | Instead> {
  return new Promise((resolve, reject) => {
    const released = enter(
      () =>
        new Promise<void>((leave, fail) => resolve(new ManualHold(leave, fail, () => released))),
      signal,
    );
    released.then((instead) => resolve({ instead }), reject); // no effect if the lock was taken
  });
}
