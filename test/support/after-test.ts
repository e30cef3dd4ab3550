import { afterEach } from '@jest/globals';
import { AsyncLocalStorage } from 'node:async_hooks';

type CleanUps = (() => unknown)[];

const ofPresentTest: CleanUps = [];
const ofConcurrentTest = new AsyncLocalStorage<CleanUps>();

afterEach(() => cleanUp(ofPresentTest));

/** Runs `cleanUp` when the current test has ended, also if it failed; what was added last runs first. */
export function afterTest(cleanUp: () => unknown): void {
  (ofConcurrentTest.getStore() ?? ofPresentTest).push(cleanUp);
}

/** The body of a test that runs beside others: what it has given to `afterTest` runs at its own end. */
export function beside<Args extends unknown[]>(
  body: (...args: Args) => Promise<void>,
): (...args: Args) => Promise<void> {
  return async (...args) => {
    const cleanUps: CleanUps = [];
    try {
      await ofConcurrentTest.run(cleanUps, () => body(...args));
    } finally {
      await cleanUp(cleanUps);
    }
  };
}

async function cleanUp(cleanUps: CleanUps): Promise<void> {
  for (const one of cleanUps.splice(0).reverse()) await one();
}
