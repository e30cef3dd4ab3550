import { expect } from '@jest/globals';
import type { HoldRecord } from './lock-process.js';

/** A hold, and the index of the process that had it. */
export type ProcessHold = HoldRecord & { readonly process: number };

/** Consecutive holds of one process. */
export interface Run {
  readonly process: number;
  readonly holds: readonly ProcessHold[];
}

/** The holds of all processes in the order in which they began; `records[i]` are those of process `i`. */
export function inOrder(records: readonly (readonly HoldRecord[])[]): ProcessHold[] {
  return records
    .flatMap((holds, process) => holds.map((hold) => ({ ...hold, process })))
    .sort((a, b) => a.entered - b.entered);
}

/** Asserts that no two holds overlap, and that fencing tokens rise from hold to hold. */
export function expectExclusive(holds: readonly HoldRecord[]): void {
  const pairs = holds.slice(1).map((next, i) => ({ previous: holds[i]!, next }));
  expect(pairs.filter(({ previous, next }) => next.entered < previous.left)).toEqual([]);
  expect(pairs.filter(({ previous, next }) => next.token <= previous.token)).toEqual([]);
}

export function runsOf(holds: readonly ProcessHold[]): Run[] {
  const runs: { process: number; holds: ProcessHold[] }[] = [];
  for (const hold of holds) {
    const last = runs.at(-1);
    if (last?.process === hold.process) last.holds.push(hold);
    else runs.push({ process: hold.process, holds: [hold] });
  }
  return runs;
}

/**
 * The runs during which all processes competed: from the first hold of the process that started last to the last hold
 * of the process that finished first.
 */
export function contendedRuns(holds: readonly ProcessHold[]): Run[] {
  const processes = [...new Set(holds.map(({ process }) => process))];
  const first = (process: number): number => holds.findIndex((hold) => hold.process === process);
  const last = (process: number): number => holds.findLastIndex((hold) => hold.process === process);
  const begin = Math.max(...processes.map(first));
  const end = Math.min(...processes.map(last));
  return runsOf(holds.slice(begin, end + 1));
}
