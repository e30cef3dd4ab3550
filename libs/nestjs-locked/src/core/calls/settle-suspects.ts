import { awaitAnswer } from '../time/await-answer.js';
import type { Clock } from '../time/clock.js';
import type { ReentryLevel } from './reentry-level.js';

/** Neither held nor lost: its lease is suspect. */
export function isSuspect({ hold }: ReentryLevel): boolean {
  return !hold.isHeld && !hold.isOver;
}

/**
 * Waits until the store has confirmed what is held under suspect leases, until that is known to be over, or until the
 * signal aborts.
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
    if (signal?.aborted === true) return; // the call ends with it
    if (!hold.isOver) hold.assertHeld();
  }
}
