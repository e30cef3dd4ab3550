import { atNextTurn } from '../runtime/arrived-messages.js';
import { inNeutralContext } from '../runtime/neutral-context.js';
import type { Clock } from './clock.js';

/**
 * If a timer is this late, the event loop was blocked: nothing was read, and perhaps nothing was sent either. So much
 * time, at least, has an answer after that.
 */
export const STALL_MS = 100;

/** The longest time for which an answer is still awaited after a blocked event loop. */
export const AFTER_STALL_MS = 1_000;

/** Whether the event loop was blocked when something was due. */
export function wasBlocked(dueAt: number, now: number): boolean {
  return now - dueAt >= STALL_MS / 2;
}

/** How long the event loop was blocked when something was due; 0 if that is no later than usual. */
export function stoodStillMs(dueAt: number, now: number): number {
  return wasBlocked(dueAt, now) ? now - dueAt : 0;
}

/**
 * How often a limit of this length is looked at. Only the time between two looks counts, whatever time it took: that is
 * how a limit leaves out the time in which this process stood still.
 */
export function lookEveryMs(limitMs: number): number {
  return Math.max(Math.min(STALL_MS / 2, limitMs / 10), limitMs / 50);
}

/**
 * Calls back at `dueAt`, when everything was read that has arrived by then.
 *
 * @param act is told for how long the event loop was blocked when it was due, or right after that
 * @returns cancels it
 */
export function whenDue(
  clock: Clock,
  dueAt: number,
  act: (stoodStillMs: number) => void,
): () => void {
  let isCancelled = false;
  const cancelTimer = clock.after(Math.max(0, dueAt - clock.now()), () => {
    inNeutralContext(
      () => void atNextTurn(() => isCancelled || act(stoodStillMs(dueAt, clock.now()))),
    );
  });
  return () => {
    isCancelled = true;
    cancelTimer();
  };
}

/** The end of a limit that leaves out the time in which this process stood still. */
export class AwakeLimit {
  #isExtended = false;

  /**
   * @param limitMs how long it is
   * @param since when it has begun, on the monotonic clock
   * @param endsAt when it is over
   */
  constructor(
    readonly limitMs: number,
    readonly since: number,
    public endsAt = since + limitMs,
  ) {}

  /** When to look at it next. */
  lookAt(now: number): number {
    return Math.min(this.endsAt, now + lookEveryMs(this.limitMs));
  }

  /**
   * This process stood still until `now`. What of that time belongs to the limit does not count, and once, if the limit
   * would be over, there is a little more: for what could only be sent now.
   */
  stoodStill(ms: number, now: number): void {
    this.endsAt += Math.min(ms, now - this.since);
    const soonest = now + Math.min(STALL_MS, this.limitMs);
    if (this.#isExtended || this.endsAt >= soonest) return;
    this.#isExtended = true;
    this.endsAt = soonest;
  }
}

/**
 * Calls `over` when an answer has not come within `limitMs`. Whatever has arrived by then is read first, and the time
 * in which the event loop was blocked does not count: a process that stood still must not take its own silence for that
 * of the store, and what it has to do when the store is silent needs time as well.
 * @returns cancels it
 */
export function afterSilence(clock: Clock, limitMs: number, over: () => void): () => void {
  if (limitMs === Infinity) return () => {};
  const limit = new AwakeLimit(limitMs, clock.now());
  let cancel = (): void => {};
  const look = (): void => {
    cancel = whenDue(clock, limit.lookAt(clock.now()), (stoodStill) => {
      const now = clock.now();
      if (stoodStill > 0) limit.stoodStill(stoodStill, now);
      if (limit.endsAt <= now) over();
      else look();
    });
  };
  look();
  return () => cancel();
}
