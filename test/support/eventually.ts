import { setTimeout as sleep } from 'node:timers/promises';

/**
 * Repeats the assertion until it holds, for state that no event reports. The limit only ends a wait for a state that
 * never comes; a busy machine stays below it.
 */
export async function eventually<T>(assert: () => T | Promise<T>, limitMs = 60_000): Promise<T> {
  const deadline = performance.now() + limitMs;
  for (;;) {
    try {
      return await assert();
    } catch (error) {
      if (performance.now() > deadline) throw error;
      await sleep(10);
    }
  }
}
