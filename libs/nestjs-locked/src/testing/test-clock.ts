import { inNeutralContext } from '../core/runtime/neutral-context.js';
import { type CancelTimer, type Clock, systemClock } from '../core/time/clock.js';
import { settled } from './settled.js';

interface Timer {
  readonly at: number;
  readonly fire: () => void;
  /** Cancels the timer of the system clock, with which the time of the test also advances. */
  cancel: CancelTimer;
}

/**
 * The system's time, which a test may also let jump forward. Its timers keep the process alive only while a call waits
 * for a lock: a lock forgotten by a test must not keep the test runner. They have no `mayEnd`, so that none remains
 * when no lock is held.
 */
export class TestClock implements Clock {
  #aheadMs = 0;
  #isWaitedFor = false;
  readonly #timers = new Set<Timer>();

  now(): number {
    return systemClock.now() + this.#aheadMs;
  }

  wallNow(): number {
    return systemClock.wallNow() + this.#aheadMs;
  }

  after(delayMs: number, fire: () => void): CancelTimer {
    if (delayMs === Infinity) return () => {};
    const timer: Timer = { at: this.now() + delayMs, fire, cancel: () => {} };
    this.#timers.add(timer);
    this.#arm(timer);
    return () => {
      timer.cancel();
      this.#timers.delete(timer);
    };
  }

  /** Whether a call waits, and its timers have to keep the process alive. */
  set isWaitedFor(isWaitedFor: boolean) {
    if (this.#isWaitedFor === isWaitedFor) return;
    this.#isWaitedFor = isWaitedFor;
    for (const timer of this.#timers) this.#keepProcess(timer);
  }

  /** Lets the time jump from timer to timer, and runs the consequences of each before the next. */
  async advance(ms: number): Promise<void> {
    const end = this.now() + ms;
    await settled();
    for (;;) {
      const next = this.#next();
      if (next === undefined || next.at > end) break;
      this.#jumpTo(next.at);
      next.cancel();
      this.#fire(next);
      await settled();
    }
    this.#jumpTo(end);
    for (const timer of this.#timers) this.#arm(timer);
  }

  #next(): Timer | undefined {
    let next: Timer | undefined;
    for (const timer of this.#timers) if (timer.at < (next?.at ?? Infinity)) next = timer;
    return next;
  }

  #jumpTo(instant: number): void {
    this.#aheadMs += Math.max(0, instant - this.now());
  }

  #arm(timer: Timer): void {
    timer.cancel();
    const leftMs = Math.max(0, timer.at - this.now());
    timer.cancel = systemClock.after(leftMs, () => this.#fire(timer));
    this.#keepProcess(timer);
  }

  #keepProcess(timer: Timer): void {
    timer.cancel.mayEnd?.(!this.#isWaitedFor);
  }

  #fire(timer: Timer): void {
    if (!this.#timers.delete(timer)) return;
    // Rounding may leave the clock just short of the timer, and nothing would be due.
    this.#jumpTo(timer.at);
    inNeutralContext(timer.fire);
  }
}
