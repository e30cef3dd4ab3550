import { atNextTurn } from '../../core/runtime/arrived-messages.js';
import { systemClock } from '../../core/time/clock.js';

/** How long a transaction that is rolled back waits for the locked calls that still run in it. */
const LIMIT_MS = 5_000;

/** The locked calls that run inside of one transaction, in whatever branch of its body. */
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

  /** Lets those end that can in this turn: who leaves an Observable after a value has it before the call has ended. */
  endOfTurn(): Promise<void> {
    return new Promise((resolve) => atNextTurn(() => resolve()));
  }

  /** Waits until all of them have ended. @returns false if they continue for more than five seconds */
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
