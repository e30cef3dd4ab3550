import { Redis } from 'ioredis';
import Redlock, { ExecutionError, type Lock } from 'redlock';

export const redlock = new Redlock([new Redis()], { retryCount: Number(process.env.RETRIES) });

// No class, so nobody injects a LockService.
export async function withdraw(user: string): Promise<void> {
  await redlock.using([`withdraw:${user}`], 5000, async () => {});
}

export async function acquire(key: string): Promise<Lock | undefined> {
  try {
    return await redlock.acquire([key], 5000);
  } catch (error) {
    if (error instanceof Error && error.name === 'ExecutionError') return undefined;
    if (error instanceof ExecutionError) console.error(error.attempts.length);
    throw error;
  }
}
