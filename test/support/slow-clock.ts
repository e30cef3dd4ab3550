import { type Clock, systemClock } from '../../libs/nestjs-locked/src/core/time/clock.js';

/**
 * A clock that goes several times slower than the real one. All limits of the library are so much longer by it, which
 * leaves a busy machine time for what takes milliseconds on an idle one. Redis goes by its own clock: leases that are
 * held for longer than a moment do not go together with this one.
 */
export class SlowClock implements Clock {
  readonly #times: number;

  /** @param times how many times slower it is */
  constructor(times: number) {
    this.#times = times;
  }

  now(): number {
    return systemClock.now() / this.#times;
  }

  wallNow(): number {
    return systemClock.wallNow() / this.#times;
  }

  after(delayMs: number, fire: () => void): ReturnType<Clock['after']> {
    return systemClock.after(delayMs * this.#times, fire);
  }
}
