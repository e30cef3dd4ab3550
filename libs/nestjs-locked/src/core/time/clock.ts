import { inNeutralContext } from '../runtime/neutral-context.js';

/** Cancels a timer. Calling it twice, or after the timer fired, does nothing. */
export interface CancelTimer {
  (): void;
  /**
   * Says whether the process may end although the timer is armed; at first it may not. For a timer that is likely to be
   * needed again soon, this costs less than to cancel it and to arm another one. Undefined: the clock cannot do this.
   */
  readonly mayEnd?: (mayEnd: boolean) => void;
}

/**
 * The only source of time in the library.
 *
 * Leases are measured on the monotonic clock, so a stepped wall clock has no effect on them.
 */
export interface Clock {
  /** Milliseconds on a clock that never goes back; the origin means nothing. */
  now(): number;
  /** Milliseconds since 1970. Only compared with `now()` to notice that the machine was suspended. */
  wallNow(): number;
  /**
   * Calls `fire` once, not before `delayMs` have passed, and in no request's async context. `Infinity` means never;
   * long delays are safe.
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
