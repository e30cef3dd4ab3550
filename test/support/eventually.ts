import { setTimeout as sleep } from 'node:timers/promises';

/** Asks again and again until the assertion holds: for what a server tells nobody. */
export async function eventually<T>(assert: () => T | Promise<T>, limitMs = 15_000): Promise<T> {
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
