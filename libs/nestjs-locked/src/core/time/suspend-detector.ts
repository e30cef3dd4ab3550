import type { Clock } from './clock.js';

/** If the wall clock has gained more than this on the monotonic one, it was set, or the machine slept. */
const TOLERANCE_MS = 1_000;

/**
 * Notices that the machine may have been suspended: the monotonic clock stands still then, and local deadlines with
 * it, while the leases in the store run on. A wall clock that is set forward looks the same, and costs a renewal.
 */
export class SuspendDetector {
  readonly #clock: Clock;
  #offset: number;

  constructor(clock: Clock) {
    this.#clock = clock;
    this.#offset = clock.wallNow() - clock.now();
  }

  /** @returns how long the machine may have slept since the last call, in milliseconds; 0 if it has not */
  sleptMs(): number {
    const offset = this.#clock.wallNow() - this.#clock.now();
    const gained = offset - this.#offset;
    this.#offset = offset;
    return gained > TOLERANCE_MS ? gained : 0;
  }
}
