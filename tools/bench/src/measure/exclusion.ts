import type { Holds } from './hold-log.js';

/** How often somebody came in before the one inside had left, and for how long at most. */
export interface Overlaps {
  readonly count: number;
  readonly longestMs: number;
}

/** Puts the logs of all processes in order. There must never be two inside. */
export function overlapsIn(logs: readonly Holds[]): Overlaps {
  const all = logs.flatMap(({ from, until }) =>
    Array.from(from, (start, n) => [start, until[n] ?? start] as const),
  );
  all.sort(([a], [b]) => a - b);
  let count = 0;
  let longest = 0;
  let inside = -Infinity;
  for (const [from, until] of all) {
    if (from < inside) {
      count += 1;
      longest = Math.max(longest, Math.min(inside, until) - from);
    }
    inside = Math.max(inside, until);
  }
  return { count, longestMs: longest / 1e6 };
}
