import { type Clock, systemClock } from '../../libs/nestjs-locked/src/core/time/clock.js';

/** The real clock; counts the timers that are armed, and can be impatient. */
export class CountingClock implements Clock {
  /** How many timers are armed. */
  timers = 0;
  readonly #longestMs: number;

  /** @param longestMs no timer takes longer than this, whatever was asked for */
  constructor(longestMs = Infinity) {
    this.#longestMs = longestMs;
  }

  now(): number {
    return systemClock.now();
  }

  wallNow(): number {
    return systemClock.wallNow();
  }

  after(delayMs: number, fire: () => void): () => void {
    if (delayMs === Infinity) return () => {};
    let open = true;
    const close = (): void => {
      if (open) this.timers--;
      open = false;
    };
    this.timers++;
    const cancel = systemClock.after(Math.min(delayMs, this.#longestMs), () => {
      close();
      fire();
    });
    return () => {
      close();
      cancel();
    };
  }
}
