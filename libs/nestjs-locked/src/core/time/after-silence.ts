import { atNextTurn } from '../runtime/arrived-messages.js';
import { inNeutralContext } from '../runtime/neutral-context.js';
import type { Clock } from './clock.js';

/** If a timer is this late, the event loop was blocked: nothing was read, and perhaps nothing was sent either. */
export const STALL_MS = 100;

/** The longest time for which an answer is still awaited after a blocked event loop. */
export const AFTER_STALL_MS = 1_000;

/**
 * Calls `over` when an answer has not come within `limitMs`. Whatever has arrived by then is read first, and if the
 * event loop was blocked when the limit passed, the answer gets a little more time, once: a process that stood still
 * must not take its own silence for that of the store.
 * @returns cancels it
 */
export function afterSilence(clock: Clock, limitMs: number, over: () => void): () => void {
  const dueAt = clock.now() + limitMs;
  let isCancelled = false;
  const readFirst = (): void =>
    inNeutralContext(() => void atNextTurn(() => isCancelled || over()));
  let cancelTimer = clock.after(limitMs, () => {
    const wasBlocked = clock.now() - dueAt >= STALL_MS;
    if (wasBlocked) cancelTimer = clock.after(Math.min(limitMs, AFTER_STALL_MS), readFirst);
    else readFirst();
  });
  return () => {
    isCancelled = true;
    cancelTimer();
  };
}
