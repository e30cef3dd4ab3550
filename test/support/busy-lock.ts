import type { LockService } from 'nestjs-locked';

/**
 * Holds the key on behalf of another caller while `work` runs. It does not use `withLock`, because a call inside `work`
 * would join that hold.
 */
export async function whileBusy<T>(
  locks: Pick<LockService, 'acquire'>,
  key: string,
  work: () => Promise<T>,
): Promise<T> {
  const lock = await locks.acquire(key);
  try {
    return await work();
  } finally {
    await lock.release();
  }
}
