import { watchAbort } from '../runtime/abort-watch.js';
import { whenDue } from '../time/after-silence.js';
import type { Clock } from '../time/clock.js';

/**
 * Lets in one branch (`Promise.all`) at a time of a call that holds a key, in order of arrival.
 */
export class BranchMutex {
  readonly #waiting = new Set<() => void>();
  #taken = false;
  /** What the call whose branches enter here has entered itself, once it has ended. */
  #around: BranchMutex | undefined;

  /**
   * @param waitMs how long to wait; 0 = only if it is free now
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
    let left: BranchMutex | undefined = this.#leaveHere();
    while (left !== undefined) left = left.#leaveHere();
  }

  /**
   * No further branch comes: the call whose branches enter here has ended. What it has entered itself is left once
   * nobody is inside here or waits any more; perhaps at once.
   */
  endInside(around: BranchMutex): void {
    if (this.#taken) this.#around = around.#present;
    else around.leave();
  }

  /** @returns what is to be left as well, around this one */
  #leaveHere(): BranchMutex | undefined {
    for (const next of this.#waiting) {
      next();
      return undefined;
    }
    this.#taken = false;
    return this.#around;
  }

  /** Those that have ended are passed over: calls that begin one another without an end would all stay in memory. */
  get #present(): BranchMutex {
    return (this.#waiting.size === 0 ? this.#around : undefined) ?? this;
  }
}
