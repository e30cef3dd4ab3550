import { afterEach } from '@jest/globals';

const cleanUps: (() => unknown)[] = [];

afterEach(async () => {
  for (const cleanUp of cleanUps.splice(0).reverse()) await cleanUp();
});

/** Runs `cleanUp` when the current test has ended, also if it failed; what was added last runs first. */
export function afterTest(cleanUp: () => unknown): void {
  cleanUps.push(cleanUp);
}
