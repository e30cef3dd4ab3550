import { LockStoreError } from '../../../core/lock.errors.js';
import { afterSilence } from '../../../core/time/after-silence.js';
import type { Clock } from '../../../core/time/clock.js';
import { reasonOf } from '../server/reason-of.js';

/**
 * Waits for a command for at most `limitMs`. The command may still be executed afterwards.
 * @throws LockStoreError with the client's error as `cause`
 */
export async function withinLimit<T>(
  clock: Clock,
  limitMs: number,
  action: string,
  command: () => Promise<T>,
): Promise<T> {
  return await new Promise<T>((resolve, reject) => {
    const cancel = afterSilence(clock, limitMs, () => {
      reject(new LockStoreError(`Cannot ${action}: Redis did not answer within ${limitMs} ms`));
    });
    command()
      .then(resolve, (cause: unknown) => {
        reject(new LockStoreError(`Cannot ${action}: ${reasonOf(cause)}`, undefined, { cause }));
      })
      .finally(cancel);
  });
}
