import { watchAbort } from '../runtime/abort-watch.js';
import { atMost } from './at-most.js';
import type { Clock } from './clock.js';

/**
 * Waits for an answer of the store, but no longer than the call that needs it may take.
 * @param until when the store must have answered, on the monotonic clock
 * @param signal ends the wait at once
 * @returns undefined if there was no answer by then
 */
export async function awaitAnswer<T>(
  answer: Promise<T>,
  clock: Clock,
  until: number,
  signal: AbortSignal | undefined,
): Promise<T | undefined> {
  if (signal?.aborted === true) return undefined;
  let unwatch: (() => void) | undefined;
  const aborted = new Promise<undefined>((resolve) => {
    unwatch = signal && watchAbort(signal, () => resolve(undefined));
  });
  const limitMs = Math.max(0, until - clock.now());
  const answered = await atMost(clock, limitMs, Promise.race([answer, aborted]));
  unwatch?.();
  return answered;
}
