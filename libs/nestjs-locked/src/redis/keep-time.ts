import type { Clock } from '../core/time/clock.js';

/**
 * For how long a key is to stay taken by nobody. It is counted from the call, but Redis counts from the moment at which
 * it is told. So whatever sends the command asks anew each time: it may have waited, or been sent before.
 */
export class KeepTime {
  readonly #clock: Clock;
  readonly #ms: number;
  readonly #until: number;

  constructor(clock: Clock, ms = 0) {
    this.#clock = clock;
    this.#ms = ms;
    this.#until = clock.now() + ms;
  }

  /** What is left of it, in whole milliseconds; 0 if it is over. */
  get leftMs(): number {
    const left = Math.ceil(this.#until - this.#clock.now());
    return Math.min(this.#ms, Math.max(0, left)); // a sum of fractions may be a little too large
  }
}
