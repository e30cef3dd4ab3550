import { setTimeout as sleep } from 'node:timers/promises';

/**
 * Asks again and again until the assertion holds: for what a server tells nobody. The limit is for what never comes: a
 * busy machine does not reach it.
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
