import { watchAbort } from '../runtime/abort-watch.js';
import { whenDue } from '../time/after-silence.js';
import type { Clock } from '../time/clock.js';

/** Admits the branches (`Promise.all`) of a call that holds a key one at a time, in order of arrival. */
export class BranchMutex {
  readonly #waiting = new Set<() => void>();
  #taken = false;
  /** The outer mutex that the call with these branches has entered itself; set when that call has ended. */
  #around: BranchMutex | undefined;

  /** Whether a branch is inside. */
  get isTaken(): boolean {
    return this.#taken;
  }

  /**
   * @param waitMs how long to wait; 0 = only if it is free now
   * @returns 'entered', or the reason why not
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
      // The answer that ends the work inside may have arrived unread.
      const cancel = whenDue(clock, clock.now() + waitMs, () => end('busy'));
      const unwatch = signal && watchAbort(signal, () => end('aborted'));
      this.#waiting.add(go);
    });
  }

  /** A loop, because any number of nested calls may have ended before their innermost one. */
  leave(): void {
    let left: BranchMutex | undefined = this.#leaveHere();
    while (left !== undefined) left = left.#leaveHere();
  }

  /**
   * Called when the call with these branches has ended and no branch will follow. Its own outer mutex is left when
   * nobody is inside or waiting here any more, possibly at once.
   */
  endInside(around: BranchMutex): void {
    if (this.#taken) this.#around = around.#present;
    else around.leave();
  }

  /** @returns the outer mutex to leave as well */
  #leaveHere(): BranchMutex | undefined {
    for (const next of this.#waiting) {
      next();
      return undefined;
    }
    this.#taken = false;
    return this.#around;
  }

  /** Skips ended mutexes: otherwise, an endless chain of calls that start one another would stay in memory. */
  get #present(): BranchMutex {
    return (this.#waiting.size === 0 ? this.#around : undefined) ?? this;
  }
}
