import { type Clock, systemClock } from '../../libs/nestjs-locked/src/core/time/clock.js';

/**
 * A clock that runs several times slower than the real one. It extends all limits of the library, so that operations
 * that take milliseconds on an idle machine meet them on a busy one. Do not hold leases for long with it, because Redis
 * uses its own clock.
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
