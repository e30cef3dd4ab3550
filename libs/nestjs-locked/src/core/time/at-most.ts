import { afterSilence } from './after-silence.js';
import type { Clock } from './clock.js';

/**
 * Waits for `limitMs` at most. What is waited for goes on after that, and whether it fails then does not matter.
 * @returns undefined if the time was over first
 */
export function atMost<T>(clock: Clock, limitMs: number, done: Promise<T>): Promise<T | undefined> {
  return new Promise((resolve, reject) => {
    const cancel = afterSilence(clock, limitMs, () => resolve(undefined));
    done.finally(cancel).then(resolve, reject);
  });
}
