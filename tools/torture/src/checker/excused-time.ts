import { EVERY_KEY } from '../keys.js';
import type { Facts } from './facts.js';
import { coveredMs, type Interval } from './intervals.js';

/** For how long what happened to a key was not judged, by key. */
export type KeyTimes = Readonly<Record<string, number>>;

export interface ExcusedTime {
  /** From the first entry to the last. */
  readonly runMs: number;
  /** By the fault, or by what happened to a process. Keys that it did not concern are left out. */
  readonly byCause: Readonly<Record<string, KeyTimes>>;
  /** By all of them together. */
  readonly byKey: KeyTimes;
}

/** Waits for a key are not judged while a fault that concerns the key may delay them. */
export function excusedTime({ history, calls, disturbances }: Facts): ExcusedTime {
  const run = { from: history[0]?.at ?? 0, until: history.at(-1)?.at ?? 0 };
  const asked = new Set([...calls.values()].flatMap(({ keys }) => keys));
  const byCause: Record<string, Record<string, number>> = {};
  const byKey: Record<string, number> = {};
  for (const key of EVERY_KEY) {
    if (!asked.has(key)) continue;
    const all: Interval[] = [];
    for (const [cause, intervals] of disturbances.excusesOf(key)) {
      const ms = Math.round(coveredMs(run, intervals));
      if (ms > 0) (byCause[cause] ??= {})[key] = ms;
      all.push(...intervals);
    }
    byKey[key] = Math.round(coveredMs(run, all));
  }
  return { runMs: run.until - run.from, byCause, byKey };
}
