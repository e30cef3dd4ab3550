import type { LockService } from 'nestjs-locked';

/** Somebody else has the key meanwhile. Not with `withLock`: a call from inside the work would join its hold. */
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
