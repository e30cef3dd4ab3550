import { atNextTurn } from '../../core/runtime/arrived-messages.js';
import { systemClock } from '../../core/time/clock.js';

/** How long a rollback waits for locked calls still running in the transaction. */
const LIMIT_MS = 5_000;

/** The locked calls running inside one transaction, in any branch of its body. */
export class Branches {
  #running = 0;
  #onNone: () => void = () => {};

  get areRunning(): boolean {
    return this.#running > 0;
  }

  async run<T>(work: () => T | Promise<T>): Promise<T> {
    this.#running++;
    try {
      return await work();
    } finally {
      this.#running--;
      if (this.#running === 0) this.#onNone();
    }
  }

  /**
   * Lets calls end that can in this turn: a subscriber that leaves an Observable after a value gets it before the call
   * has ended.
   */
  endOfTurn(): Promise<void> {
    return new Promise((resolve) => atNextTurn(() => resolve()));
  }

  /** Waits until all calls have ended. @returns false if any takes more than five seconds */
  ended(): Promise<boolean> {
    if (!this.areRunning) return Promise.resolve(true);
    return new Promise((resolve) => {
      const cancel = systemClock.after(LIMIT_MS, () => resolve(false));
      this.#onNone = () => {
        cancel();
        resolve(true);
      };
    });
  }
}
