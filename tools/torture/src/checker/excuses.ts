import { type Entry, SLOW_PULSE } from '../history/entry.js';
import { EVERY_KEY, STEADY_KEYS } from '../keys.js';
import type { Call } from './call.js';
import type { Disturbances } from './disturbances.js';
import type { Facts } from './facts.js';
import { coveredMs, type Interval } from './intervals.js';
import type { Section } from './section.js';

/**
 * What a machine does that has too much to do. A planned fault that makes a worker stand still is among them, because a
 * standstill does not say where it comes from.
 */
const OF_MACHINE: ReadonlySet<string> = new Set([
  SLOW_PULSE,
  'this program stood still',
  'a worker stood still',
]);

/** For how long what happened to a key was not judged, by key. */
export type KeyTimes = Readonly<Record<string, number>>;

export interface ExcusedTime {
  /** From the first entry to the last. */
  readonly runMs: number;
  /** By the fault, or by what happened to a process. Keys that it did not concern are left out. */
  readonly byCause: Readonly<Record<string, KeyTimes>>;
  /** By all of them together. */
  readonly byKey: KeyTimes;
  /** By those of them that torture has planned. The rest is the doing of the machine. */
  readonly planned: KeyTimes;
}

/** Waits for a key are not judged while a fault that concerns the key may delay them. */
export function excusedTime(
  history: readonly Entry[],
  calls: Iterable<Call>,
  disturbances: Disturbances,
): ExcusedTime {
  const run = { from: history[0]?.at ?? 0, until: history.at(-1)?.at ?? 0 };
  const asked = new Set([...calls].flatMap(({ keys }) => keys));
  const byCause: Record<string, Record<string, number>> = {};
  const byKey: Record<string, number> = {};
  const planned: Record<string, number> = {};
  for (const key of EVERY_KEY.filter((name) => asked.has(name))) {
    const all: Interval[] = [];
    const ofPlan: Interval[] = [];
    for (const [cause, intervals] of disturbances.excusesOf(key)) {
      const ms = Math.round(coveredMs(run, intervals));
      if (ms > 0) (byCause[cause] ??= {})[key] = ms;
      all.push(...intervals);
      if (!OF_MACHINE.has(cause)) ofPlan.push(...intervals);
    }
    planned[key] = Math.round(coveredMs(run, ofPlan));
    byKey[key] = Math.round(coveredMs(run, all));
  }
  return { runMs: run.until - run.from, byCause, byKey, planned };
}

/** Faults excuse no more than a share of the holds, and of the time. Applied when all others have excused theirs. */
export function* excuseViolations(facts: Facts): Iterable<string> {
  const { own, excused, excusedTime: time, limits } = facts;
  // Of a crowd that was to give up, a thousand calls may hold their own keys in one moment. They are not counted.
  const isCounted = ({ call }: Section): boolean => call?.what !== 'crowd';
  const ofHolds = own.filter(isCounted).length;
  const ofThem = [...excused].filter(isCounted).length;
  if (ofThem > ofHolds * limits.excusedShare) {
    yield `${ofThem} of ${ofHolds} holds were excused by faults, more than ${limits.excusedShare * 100} %`;
  }
  for (const key of STEADY_KEYS) {
    const caps = [
      [time.byKey, limits.excusedTimeShare, 'excused'],
      [time.planned, limits.plannedTimeShare, 'excused by planned faults'],
    ] as const;
    for (const [times, most, how] of caps) {
      const share = (times[key] ?? 0) / time.runMs;
      if (!(share > most)) continue; // a history of one moment has no share
      yield `waits for ${key} were ${how} for ${(share * 100).toFixed(0)} % of the time, more than ${most * 100} %`;
    }
  }
}
