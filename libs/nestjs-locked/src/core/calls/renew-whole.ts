import { LockStoreError } from '../lock.errors.js';
import { RETRY_MS } from '../store/retry-pause.js';
import { awaitAnswer } from '../time/await-answer.js';
import type { Clock } from '../time/clock.js';
import type { CallTime } from './call-time.js';
import type { ReentryLevel } from './reentry-level.js';

/**
 * Renews fixed leases to their whole length when the call has all its keys, because their time starts with the work.
 * The answers are awaited no longer than any other at the end of the wait, and no longer than until the signal aborts.
 *
 * @param levels the keys of one call, in order
 * @throws LockStoreError if there was no answer until the end of the wait
 */
export async function renewWhole(
  levels: readonly ReentryLevel[],
  clock: Clock,
  time: CallTime,
  signal: AbortSignal | undefined,
): Promise<void> {
  const own = levels.filter(({ isRoot }) => isRoot);
  for (;;) {
    time.asksAgain();
    const renewing = Promise.all(own.map(({ hold }) => hold.renewWhole()));
    const answers = await awaitAnswer(renewing, clock, time.answerBy, signal);
    const causes = answers ?? [unanswered(levels)];
    const cause = causes.find((failed) => failed !== undefined);
    const isLost = levels.some(({ hold }) => hold.isOver);
    if (cause === undefined || isLost || signal?.aborted === true) return;
    if (time.leftMs === 0) throw cause;
    await new Promise<void>((resolve) => void clock.after(RETRY_MS, resolve));
  }
}

function unanswered([first]: readonly ReentryLevel[]): LockStoreError {
  const key = first?.hold.key as string;
  return new LockStoreError(
    `Cannot lock '${key}': Redis has not answered the renewal of a fixed lease yet`,
    key,
  );
}
