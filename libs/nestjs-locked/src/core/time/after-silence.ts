import { atNextTurn } from '../runtime/arrived-messages.js';
import { inNeutralContext } from '../runtime/neutral-context.js';
import type { Clock } from './clock.js';

/**
 * A timer this late means that the event loop was blocked, with nothing read and perhaps nothing sent. Also the least
 * time that an answer gets after that.
 */
export const STALL_MS = 100;

/** The longest time that an answer gets after a blocked event loop. */
export const AFTER_STALL_MS = 1_000;

/** Whether the event loop was blocked when a timer was due. */
export function wasBlocked(dueAt: number, now: number): boolean {
  return now - dueAt >= STALL_MS / 2;
}

/** How long the event loop was blocked when a timer was due; 0 if the timer is no later than usual. */
export function stoodStillMs(dueAt: number, now: number): number {
  return wasBlocked(dueAt, now) ? now - dueAt : 0;
}

/**
 * The interval at which a limit of this length is checked. Each check counts at most one interval, which is how a limit
 * excludes the time in which this process was blocked.
 */
export function lookEveryMs(limitMs: number): number {
  return Math.max(Math.min(STALL_MS / 2, limitMs / 10), limitMs / 50);
}

/**
 * Calls back at `dueAt`, after all data that has arrived by then was read.
 *
 * @param act receives how long the event loop was blocked at `dueAt` or right after
 * @returns a function that cancels it
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

/** A time limit that excludes the time in which this process was blocked. */
export class AwakeLimit {
  #isExtended = false;

  /**
   * @param limitMs its length
   * @param since when it began, on the monotonic clock
   * @param endsAt when it ends
   */
  constructor(
    readonly limitMs: number,
    readonly since: number,
    public endsAt = since + limitMs,
  ) {}

  /** When to check it next. */
  lookAt(now: number): number {
    return Math.min(this.endsAt, now + lookEveryMs(this.limitMs));
  }

  /**
   * Called after this process was blocked until `now`: that part of the limit does not count. Once, if the limit would
   * be over, it is extended a little for commands that could be sent only now.
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
 * Calls `over` if no answer has come within `limitMs`. Data that has arrived by then is read first, and time in which
 * the event loop was blocked does not count: a blocked process must not mistake its own silence for that of the store,
 * and handling a silent store takes time too.
 * @returns a function that cancels it
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
