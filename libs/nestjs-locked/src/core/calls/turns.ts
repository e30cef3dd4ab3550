import { watchAbort } from '../runtime/abort-watch.js';
import { whenDue } from '../time/after-silence.js';
import type { Clock } from '../time/clock.js';

/**
 * Lets one branch in at a time, in order of arrival, within this process. The branches of a call that holds a key
 * (`Promise.all`) take turns with it here.
 */
export class Turns {
  readonly #waiting = new Set<() => void>();
  #taken = false;
  #onFree: () => void = () => {};

  /**
   * @param waitMs how long to wait for the turn; 0 = only if it is free now
   * @returns 'entered', or why not
   */
  enter(
    clock: Clock,
    waitMs: number,
    signal?: AbortSignal,
  ): Promise<'entered' | 'busy' | 'aborted'> {
    if (signal?.aborted === true) return Promise.resolve('aborted');
    if (!this.#taken) {
      this.#taken = true;
      return Promise.resolve('entered');
    }
    if (waitMs === 0) return Promise.resolve('busy');
    return new Promise((resolve) => {
      const end = (outcome: 'entered' | 'busy' | 'aborted'): void => {
        this.#waiting.delete(go);
        cancel();
        unwatch?.();
        resolve(outcome);
      };
      const go = (): void => end('entered');
      // Work that ends with an answer may have been answered, unread.
      const cancel = whenDue(clock, clock.now() + waitMs, () => end('busy'));
      const unwatch = signal && watchAbort(signal, () => end('aborted'));
      this.#waiting.add(go);
    });
  }

  leave(): void {
    for (const next of this.#waiting) return next();
    this.#taken = false;
    this.#onFree();
  }

  /** Calls back once, when nobody has the turn or waits for it any more: perhaps at once. */
  whenFree(callback: () => void): void {
    if (this.#taken) this.#onFree = callback;
    else callback();
  }
}
