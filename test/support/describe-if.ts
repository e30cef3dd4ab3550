import { describe } from '@jest/globals';
import { findChromium, hasMariaDb, hasMySql } from 'dev-servers';
import { execFileSync } from 'node:child_process';

type Describe = (name: string, tests: () => void) => void;

/** A `describe` that skips its tests unless `condition` is true; `npm test` then prints `skipped: <reason>`. */
export function describeIf(condition: boolean, reason: string): Describe {
  if (condition) return describe;
  return (name, tests) => describe(`skipped: ${reason}`, () => describe.skip(name, tests));
}

/** For tests that need an installed MariaDB. */
export const describeWithMariaDb: Describe = describeIf(hasMariaDb(), 'no MariaDB');

/** For tests that need an installed Chromium. */
export const describeWithChromium: Describe = describeIf(
  findChromium() !== undefined,
  'no Chromium',
);

/** For tests that need an installed MySQL. */
export const describeWithMySql: Describe = describeIf(hasMySql(), 'no MySQL');

/** For tests that need features of Redis 7.2. */
export const describeWithRedis72: Describe = describeIf(
  redisVersion() >= 7.2,
  'no Redis from 7.2 on',
);

/** The major and minor version of the `redis-server` on PATH; 0 if there is none. */
function redisVersion(): number {
  try {
    const said = execFileSync('redis-server', ['--version'], { encoding: 'utf8' });
    return Number(/v=(\d+\.\d+)/.exec(said)?.[1] ?? 0);
  } catch {
    return 0;
  }
}
