import { inNeutralContext } from '../runtime/neutral-context.js';

/** Cancels a timer. Calling it twice, or after the timer fired, does nothing. */
export interface CancelTimer {
  (): void;
  /**
   * Sets whether the process may end while the timer is armed; initially it may not. Cheaper than cancelling and
   * re-arming a timer that is likely to be needed again soon. Undefined if the clock does not support it.
   */
  readonly mayEnd?: (mayEnd: boolean) => void;
}

/**
 * The only source of time in the library.
 *
 * Leases are measured on the monotonic clock, so a stepped wall clock has no effect on them.
 */
export interface Clock {
  /** Milliseconds on a clock that never goes back, with an arbitrary origin. */
  now(): number;
  /**
   * Milliseconds since 1970. Tells people when something was and, compared with `now()`, that the machine was
   * suspended.
   */
  wallNow(): number;
  /**
   * Calls `fire` once, after at least `delayMs`, outside the async context of any request. `Infinity` means never; long
   * delays are safe.
   */
  after(delayMs: number, fire: () => void): CancelTimer;
}

/** `setTimeout` fires at once above this delay (and for `Infinity`). */
const LONGEST_TIMEOUT_MS = 2 ** 31 - 1;

export const systemClock: Clock = {
  now: () => performance.now(),
  wallNow: () => Date.now(),
  after(delayMs, fire) {
    if (delayMs === Infinity) return () => {};
    const end = performance.now() + delayMs;
    let timer: NodeJS.Timeout;
    const arm = (): void => {
      const left = Math.max(0, Math.ceil(end - performance.now()));
      timer = setTimeout(
        () => (performance.now() < end ? arm() : fire()),
        Math.min(left, LONGEST_TIMEOUT_MS),
      );
    };
    inNeutralContext(arm);
    const mayEnd = (may: boolean): void => void (may ? timer.unref() : timer.ref());
    return Object.assign(() => clearTimeout(timer), { mayEnd });
  },
};
