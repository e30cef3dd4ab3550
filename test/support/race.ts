import { expect } from '@jest/globals';
import { setTimeout as sleep } from 'node:timers/promises';
import type { OpenedLocks } from './open-locks.js';
import { uniqueKey } from './unique-key.js';

export interface RaceOptions {
  readonly forMs: number;
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

/** Two callers of each service take one key again and again, never two at a time. */
export function race(
  services: readonly OpenedLocks[],
  { forMs, waitMs = 60_000, key = uniqueKey() }: RaceOptions,
): Promise<RaceResult[]> {
  const until = performance.now() + forMs;
  let inside = 0;
  return Promise.all(
    services.map(async ({ engine }) => {
      let [holds, longestMs, last] = [0, 0, performance.now()];
      const errors: unknown[] = [];
      const hold = async (): Promise<void> => {
        expect(++inside).toBe(1);
        holds++;
        longestMs = Math.max(longestMs, performance.now() - last);
        await sleep(5);
        last = performance.now();
        inside--;
      };
      const call = async (): Promise<void> => {
        while (performance.now() < until) {
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
