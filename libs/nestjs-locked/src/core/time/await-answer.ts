import { watchAbort } from '../runtime/abort-watch.js';
import { atMost } from './at-most.js';
import type { Clock } from './clock.js';

/**
 * Waits for an answer of the store, but not for longer than the call that needs it may last.
 * @param until when the store must have answered, on the monotonic clock
 * @param signal ends it at once
 */
export async function awaitAnswer(
  answer: Promise<unknown>,
  clock: Clock,
  until: number,
  signal: AbortSignal | undefined,
): Promise<void> {
  if (signal?.aborted === true) return;
  let unwatch: (() => void) | undefined;
  const aborted = new Promise<void>((resolve) => {
    unwatch = signal && watchAbort(signal, resolve);
  });
  const limitMs = Math.max(0, until - clock.now());
  await atMost(clock, limitMs, Promise.race([answer, aborted]));
  unwatch?.();
}
