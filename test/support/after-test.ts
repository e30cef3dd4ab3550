import { afterEach } from '@jest/globals';
import { AsyncLocalStorage } from 'node:async_hooks';

type CleanUps = (() => unknown)[];

const ofPresentTest: CleanUps = [];
const ofConcurrentTest = new AsyncLocalStorage<CleanUps>();

afterEach(() => cleanUp(ofPresentTest));

/** Runs `cleanUp` after the current test, whether it passes or fails. Clean-ups run in reverse order. */
export function afterTest(cleanUp: () => unknown): void {
  (ofConcurrentTest.getStore() ?? ofPresentTest).push(cleanUp);
}

/** Wraps the body of a concurrent test: the clean-ups that it passes to `afterTest` run when the body ends. */
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
