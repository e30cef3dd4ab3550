import { expect } from '@jest/globals';
import { setTimeout as sleep } from 'node:timers/promises';
import type { OpenedLocks } from './open-locks.js';
import { uniqueKey } from './unique-key.js';

export interface RaceOptions {
  /** It is over after so many holds of all. */
  readonly holds: number;
  /** @default a minute */
  readonly waitMs?: number;
  /** @default one that nobody else uses */
  readonly key?: string;
}

/** What one of the services has got. */
export interface RaceResult {
  readonly holds: number;
  /** The longest time between two of its holds. */
  readonly longestMs: number;
  /** Of the calls that have failed. */
  readonly errors: readonly unknown[];
}

/** Ends a race in which nobody gets in. */
const LIMIT_MS = 60_000;

/** Two callers of each service take one key again and again, never two at a time. */
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
