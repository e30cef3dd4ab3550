import { describe } from '@jest/globals';
import { findChromium, hasMariaDb, hasMySql } from 'dev-servers';

type Describe = (name: string, tests: () => void) => void;

/** A `describe` that skips its tests unless `condition`; `npm test` then prints `skipped: <reason>`. */
export function describeIf(condition: boolean, reason: string): Describe {
  if (condition) return describe;
  return (name, tests) => describe(`skipped: ${reason}`, () => describe.skip(name, tests));
}

/** For tests that need a MariaDB: they install none. */
export const describeWithMariaDb: Describe = describeIf(hasMariaDb(), 'no MariaDB');

/** For tests that open a page in a real browser: they install none. */
export const describeWithChromium: Describe = describeIf(
  findChromium() !== undefined,
  'no Chromium',
);

/** For tests that need MySQL itself. */
export const describeWithMySql: Describe = describeIf(hasMySql(), 'no MySQL');
