import type { Holds } from './hold-log.js';

/** How often somebody came in before there was room, and for how long there were too many at most. */
export interface Overlaps {
  readonly count: number;
  readonly longestMs: number;
}

/** Puts the logs of all processes in order. @param limit how many may be inside at once */
export function overlapsIn(logs: readonly Holds[], limit = 1): Overlaps {
  const all = logs.flatMap(({ from, until }) =>
    Array.from(from, (start, n) => [start, until[n] ?? start] as const),
  );
  all.sort(([a], [b]) => a - b);
  let count = 0;
  let longest = 0;
  /** When those leave who are inside. */
  let inside: number[] = [];
  for (const [from, until] of all) {
    inside = inside.filter((end) => end > from).sort((a, b) => a - b);
    const roomAt = inside.at(-limit);
    if (roomAt !== undefined) {
      count += 1;
      longest = Math.max(longest, Math.min(roomAt, until) - from);
    }
    inside.push(until);
  }
  return { count, longestMs: longest / 1e6 };
}
