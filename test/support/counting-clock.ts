import { type Clock, systemClock } from '../../libs/nestjs-locked/src/core/time/clock.js';

/** The real clock. It counts the armed timers, and can shorten them. */
export class CountingClock implements Clock {
  timers = 0;
  readonly #longestMs: number;

  /** @param longestMs upper limit for the delay of each timer */
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
