export interface Interval {
  readonly from: number;
  readonly until: number;
}

export function overlaps(a: Interval, b: Interval): boolean {
  return a.from <= b.until && b.from <= a.until;
}

/** How much of `within` is covered by at least one of the other intervals. */
export function coveredMs(within: Interval, others: readonly Interval[]): number {
  const inside = others
    .filter((other) => overlaps(other, within))
    .map(({ from, until }) => ({
      from: Math.max(from, within.from),
      until: Math.min(until, within.until),
    }))
    .sort((a, b) => a.from - b.from);
  let covered = 0;
  let end = -Infinity;
  for (const { from, until } of inside) {
    covered += Math.max(0, until - Math.max(from, end));
    end = Math.max(end, until);
  }
  return covered;
}
