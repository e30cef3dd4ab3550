import { awaitAnswer } from '../time/await-answer.js';
import type { Clock } from '../time/clock.js';
import type { ReentryLevel } from './reentry-level.js';

/** Whether the lease is suspect, and the hold neither held nor lost. */
export function isSuspect({ hold }: ReentryLevel): boolean {
  return !hold.isHeld && !hold.isOver;
}

/**
 * Waits until every suspect lease was confirmed by the store or is known to be over, or until the signal aborts.
 * @param until when the store must have answered, on the monotonic clock
 * @throws LockStoreError if it has not
 */
export async function settleSuspects(
  levels: readonly ReentryLevel[],
  clock: Clock,
  until: number,
  signal: AbortSignal | undefined,
): Promise<void> {
  for (const { hold } of levels.filter(isSuspect)) {
    await awaitAnswer(hold.whenCertain(), clock, until, signal);
    if (signal?.aborted === true) return; // which ends the call
    if (!hold.isOver) hold.assertHeld();
  }
}
