import type { Clock } from '../core/clock.js';
import { LockStoreError } from '../core/lock.errors.js';

/**
 * Runs a command for at most `limitMs`. ioredis itself waits for ever while it cannot reach the server, and the
 * command may still be executed after we have stopped waiting: `isWanted` tells a command about to be sent (again).
 * @throws LockStoreError with the client's error as `cause`
 */
export async function withinLimit<T>(
  clock: Clock,
  limitMs: number,
  action: string,
  command: (isWanted: () => boolean) => Promise<T>,
): Promise<T> {
  let wanted = true;
  return await new Promise<T>((resolve, reject) => {
    const cancel = clock.after(limitMs, () => {
      wanted = false;
      reject(new LockStoreError(`Cannot ${action}: Redis did not answer within ${limitMs} ms`));
    });
    command(() => wanted)
      .then(resolve, (cause: unknown) => {
        const reason = cause instanceof Error ? cause.message : String(cause);
        reject(new LockStoreError(`Cannot ${action}: ${reason}`, undefined, { cause }));
      })
      .finally(cancel);
  });
}
