import type { Clock } from './clock.js';

/** Two clocks are never read at the same moment, and one of them counts whole milliseconds. */
const READING_MS = 5;

/** A process may also stand still between the two: then they are read again. */
const READINGS = 4;

/** How many steps are remembered one by one. */
const MOST_STEPS = 50;

/** The wall clock has gained on the monotonic one: it was set, or the machine slept. */
export interface ClockStep {
  /** On the monotonic clock. */
  readonly noticedAt: number;
  /** How long the machine may have slept at most. */
  readonly ms: number;
}

/**
 * Notices that the machine may have been suspended: the monotonic clock stands still then, and local deadlines with
 * it, while the leases in the store run on. A wall clock that is set forward looks the same. Small steps add up, and a
 * clock that is set back takes nothing away from what was noticed before.
 */
export class SuspendDetector {
  readonly #clock: Clock;
  /** How far the wall clock is ahead of the monotonic one. */
  #ahead: number;
  #steps: ClockStep[] = [];

  constructor(clock: Clock) {
    this.#clock = clock;
    this.#ahead = this.#leastLead();
  }

  /** @returns what the wall clock has gained since the last call; undefined if nothing */
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

  /** The wall clock is read second, so time that passes in between makes its lead seem greater, and never less. */
  #leastLead(): number {
    let least = Infinity;
    for (let left = READINGS; left > 0; left--) {
      const now = this.#clock.now();
      least = Math.min(least, this.#clock.wallNow() - now);
    }
    return least;
  }

  /** The steps that were noticed after this moment of the monotonic clock. */
  stepsAfter(moment: number): ClockStep[] {
    return this.#steps.filter(({ noticedAt }) => noticedAt > moment);
  }
}
