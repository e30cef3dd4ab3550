import { awaitAnswer } from '../time/await-answer.js';
import type { Clock } from '../time/clock.js';
import type { Section } from './section.js';

/** Neither held nor lost: its lease is suspect. */
export function isInDoubt({ hold }: Section): boolean {
  return !hold.isHeld && !hold.isOver;
}

/**
 * Waits until the store has confirmed what is held under suspect leases, until that is known to be over, or until the
 * signal aborts.
 * @param until when the store must have answered, on the monotonic clock
 * @throws LockStoreError if it has not
 */
export async function settleDoubts(
  sections: readonly Section[],
  clock: Clock,
  until: number,
  signal: AbortSignal | undefined,
): Promise<void> {
  for (const { hold } of sections.filter(isInDoubt)) {
    await awaitAnswer(hold.whenCertain(), clock, until, signal);
    if (signal?.aborted === true) return; // the call ends with it
    if (!hold.isOver) hold.assertHeld();
  }
}
