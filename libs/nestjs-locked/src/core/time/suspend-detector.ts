import type { Clock } from './clock.js';

/** The error of reading two clocks: not at the same moment, and one of them in whole milliseconds. */
const READING_MS = 5;

/** How often the clocks are read, because the process may be blocked between the two. */
const READINGS = 4;

/** How many steps are remembered individually. */
const MOST_STEPS = 50;

/** A gain of the wall clock on the monotonic one: it was set, or the machine slept. */
export interface ClockStep {
  /** On the monotonic clock. */
  readonly noticedAt: number;
  /** The longest time that the machine may have slept. */
  readonly ms: number;
}

/**
 * Detects that the machine may have been suspended: the monotonic clock and local deadlines stop, while leases in the
 * store keep running. Setting the wall clock forward looks the same. Small steps add up, and setting the clock back
 * does not cancel steps detected before.
 */
export class SuspendDetector {
  readonly #clock: Clock;
  /** The lead of the wall clock over the monotonic one. */
  #ahead: number;
  #steps: ClockStep[] = [];

  constructor(clock: Clock) {
    this.#clock = clock;
    this.#ahead = this.#leastLead();
  }

  /** @returns the gain of the wall clock since the last call; undefined if there is none */
  look(): ClockStep | undefined {
    const noticedAt = this.#clock.now();
    const lead = this.#clock.wallNow() - noticedAt;
    if (Math.abs(lead - this.#ahead) < READING_MS) return undefined;
    const ahead = Math.min(lead, this.#leastLead());
    const ms = ahead - this.#ahead;
    if (Math.abs(ms) < READING_MS) return undefined;
    this.#ahead = ahead;
    if (ms < 0) return undefined;
    const step = { noticedAt, ms };
    this.#steps.push(step);
    const [oldest, second] = this.#steps;
    if (this.#steps.length > MOST_STEPS && oldest !== undefined && second !== undefined)
      this.#steps.splice(0, 2, { ...second, ms: oldest.ms + second.ms });
    return step;
  }

  /**
   * The least of several readings: the wall clock is read second, so time that passes in between only increases its
   * lead.
   */
  #leastLead(): number {
    let least = Infinity;
    for (let left = READINGS; left > 0; left--) {
      const now = this.#clock.now();
      least = Math.min(least, this.#clock.wallNow() - now);
    }
    return least;
  }

  /** The steps detected after this moment of the monotonic clock. */
  stepsAfter(moment: number): ClockStep[] {
    return this.#steps.filter(({ noticedAt }) => noticedAt > moment);
  }
}
