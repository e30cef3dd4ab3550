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
  /** The turns around of which the call has one whose branches take turns here, once it has ended. */
  #around: Turns | undefined;

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

  /** A loop, because any number of calls may have ended one inside of the other, the innermost one last. */
  leave(): void {
    let left: Turns | undefined = this.#leaveHere();
    while (left !== undefined) left = left.#leaveHere();
  }

  /**
   * No further branch comes: the call whose branches take turns here has ended. It has a turn itself, left once
   * nobody has one here or waits for it any more; perhaps at once.
   */
  endInside(around: Turns): void {
    if (this.#taken) this.#around = around.#present;
    else around.leave();
  }

  /** @returns the turns of which one is left with this one */
  #leaveHere(): Turns | undefined {
    for (const next of this.#waiting) {
      next();
      return undefined;
    }
    this.#taken = false;
    return this.#around;
  }

  /** Those that have ended are passed over: calls that begin one another without an end would all stay in memory. */
  get #present(): Turns {
    return (this.#waiting.size === 0 ? this.#around : undefined) ?? this;
  }
}
