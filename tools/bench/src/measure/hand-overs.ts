import type { Holds } from './hold-log.js';
import { percentile } from './statistics.js';

/** From the end of a hold until the next process was inside, in milliseconds; NaN if the lock never changed hands. */
export interface HandOvers {
  readonly p50Ms: number;
  readonly p99Ms: number;
}

/** @param logs one for each process */
export function handOversIn(logs: readonly Holds[]): HandOvers {
  const all = logs.flatMap(({ from, until }, process) =>
    Array.from(from, (start, n) => ({ process, start, end: until[n] ?? start })),
  );
  all.sort((a, b) => a.start - b.start);
  const took = all.flatMap(({ process, start }, n) => {
    const before = all[n - 1];
    return before === undefined || before.process === process ? [] : [start - before.end];
  });
  return spanOf(Float64Array.from(took));
}

/** @param tookNs in nanoseconds */
export function spanOf(tookNs: Float64Array): HandOvers {
  const sorted = tookNs.toSorted();
  return { p50Ms: percentile(sorted, 50) / 1e6, p99Ms: percentile(sorted, 99) / 1e6 };
}
