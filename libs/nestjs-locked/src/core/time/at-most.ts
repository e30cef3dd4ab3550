import { afterSilence } from './after-silence.js';
import type { Clock } from './clock.js';

/**
 * Waits for a promise, for `limitMs` at most. Afterwards its result is ignored, and so is its rejection.
 * @returns undefined if the time ended first
 */
export function atMost<T>(clock: Clock, limitMs: number, done: Promise<T>): Promise<T | undefined> {
  return new Promise((resolve, reject) => {
    const cancel = afterSilence(clock, limitMs, () => resolve(undefined));
    done.finally(cancel).then(resolve, reject);
  });
}
