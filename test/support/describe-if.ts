import { describe } from '@jest/globals';
import { findChromium, hasMariaDb, hasMySql } from 'dev-servers';
import { execFileSync } from 'node:child_process';

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

/** For what servers of Redis from 7.2 on can do. */
export const describeWithRedis72: Describe = describeIf(
  redisVersion() >= 7.2,
  'no Redis from 7.2 on',
);

/** Of the server on PATH, which tests start: major and minor; 0 if there is none. */
function redisVersion(): number {
  try {
    const said = execFileSync('redis-server', ['--version'], { encoding: 'utf8' });
    return Number(/v=(\d+\.\d+)/.exec(said)?.[1] ?? 0);
  } catch {
    return 0;
  }
}
