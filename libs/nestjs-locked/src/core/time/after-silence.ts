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

/**
 * Calls back at `dueAt`, when everything was read that has arrived by then.
 *
 * @param act is told whether the event loop was blocked then, or shortly before: what could only be sent when that was
 * over has had no time to be answered
 * @returns cancels it
 */
export function whenDue(clock: Clock, dueAt: number, act: (blocked: boolean) => void): () => void {
  let isCancelled = false;
  let blocked = false;
  let cancelTimer = (): void => {};
  const lookAt = (at: number, then: () => void): void => {
    cancelTimer = clock.after(Math.max(0, at - clock.now()), () => {
      blocked ||= wasBlocked(at, clock.now());
      then();
    });
  };
  const readFirst = (): void =>
    inNeutralContext(() => void atNextTurn(() => isCancelled || act(blocked)));
  lookAt(Math.max(clock.now(), dueAt - STALL_MS), () => lookAt(dueAt, readFirst));
  return () => {
    isCancelled = true;
    cancelTimer();
  };
}

/**
 * Calls `over` when an answer has not come within `limitMs`. Whatever has arrived by then is read first, and if the
 * event loop was blocked when the limit passed, or shortly before, the answer gets a little more time, once: a process
 * that stood still must not take its own silence for that of the store.
 * @returns cancels it
 */
export function afterSilence(clock: Clock, limitMs: number, over: () => void): () => void {
  let cancel = whenDue(clock, clock.now() + limitMs, (blocked) => {
    if (!blocked) return over();
    cancel = whenDue(clock, clock.now() + Math.min(limitMs, AFTER_STALL_MS), over);
  });
  return () => cancel();
}
