import type { Clock } from '../core/time/clock.js';

/**
 * How long a key is to stay taken without a holder. It counts from the call, but Redis counts from the execution of the
 * command. So the rest is computed at each sending: the command may have waited, or been sent before.
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

  /** The rest, in whole milliseconds; 0 if it is over. */
  get leftMs(): number {
    const left = Math.ceil(this.#until - this.#clock.now());
    return Math.min(this.#ms, Math.max(0, left)); // a sum of fractions may be slightly too large
  }
}
