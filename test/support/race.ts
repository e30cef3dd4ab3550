import { expect } from '@jest/globals';
import { setTimeout as sleep } from 'node:timers/promises';
import type { OpenedLocks } from './open-locks.js';
import { uniqueKey } from './unique-key.js';

export interface RaceOptions {
  /** The race ends after this many holds of all services together. */
  readonly holds: number;
  /** @default one minute */
  readonly waitMs?: number;
  /** @default a unique key */
  readonly key?: string;
}

/** The outcome for one service. */
export interface RaceResult {
  readonly holds: number;
  /** The longest pause between two holds of this service. */
  readonly longestMs: number;
  /** The errors of its failed calls. */
  readonly errors: readonly unknown[];
}

/** Ends a race in which no caller gets the lock. */
const LIMIT_MS = 60_000;

/** Two callers of each service acquire one key repeatedly. Asserts that no two hold it at the same time. */
export function race(
  services: readonly OpenedLocks[],
  { holds: most, waitMs = 60_000, key = uniqueKey() }: RaceOptions,
): Promise<RaceResult[]> {
  const until = performance.now() + LIMIT_MS;
  let inside = 0;
  let total = 0;
  return Promise.all(
    services.map(async ({ engine }) => {
      let [holds, longestMs, last] = [0, 0, performance.now()];
      const errors: unknown[] = [];
      const hold = async (): Promise<void> => {
        expect(++inside).toBe(1);
        holds++;
        total++;
        longestMs = Math.max(longestMs, performance.now() - last);
        await sleep(5);
        last = performance.now();
        inside--;
      };
      const call = async (): Promise<void> => {
        while (total < most && performance.now() < until) {
          await engine.withLock(key, { waitMs }, hold).catch((error: unknown) => {
            errors.push(error);
            return sleep(10);
          });
        }
      };
      await Promise.all([call(), call()]);
      return { holds, longestMs, errors };
    }),
  );
}
