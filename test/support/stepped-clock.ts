import { type Clock, systemClock } from '../../libs/nestjs-locked/src/core/time/clock.js';

/** The real clock with an adjustable wall clock. */
export class SteppedClock implements Clock {
  offsetMs = 0;

  now(): number {
    return systemClock.now();
  }

  wallNow(): number {
    return systemClock.wallNow() + this.offsetMs;
  }

  after(ms: number, fire: () => void): ReturnType<Clock['after']> {
    return systemClock.after(ms, fire);
  }
}
