import { setTimeout as sleep } from 'node:timers/promises';

/** Sentinels that have failed to elect one of them try again after twenty seconds. */
const LIMIT_MS = 60_000;

/**
 * Waits until `isSo` returns true, which is asked again and again.
 *
 * @param what ends the sentence "It took too long until …"
 * @throws Error if it is not so within a minute
 */
export async function until(what: string, isSo: () => Promise<boolean>): Promise<void> {
  const deadline = performance.now() + LIMIT_MS;
  while (!(await isSo())) {
    if (performance.now() > deadline) throw new Error(`It took too long until ${what}`);
    await sleep(50);
  }
}
