/** The median of several rounds, and between which values the middle half of them is. */
export interface Spread {
  readonly median: number;
  readonly low: number;
  readonly high: number;
}

export function spreadOf(values: readonly number[]): Spread {
  const sorted = Float64Array.from(values).sort();
  return {
    median: percentile(sorted, 50),
    low: percentile(sorted, 25),
    high: percentile(sorted, 75),
  };
}

/** The spread of each of several measurements. */
export function spreadsOf(values: Readonly<Record<string, readonly number[] | number>>) {
  const spreads = Object.entries(values).map(([id, of]) => [id, spreadOf([of].flat())] as const);
  return Object.fromEntries(spreads) as Record<string, Spread>;
}

/** Round by round, so that what slows the whole machine down for a while cancels out. */
export function ratioOf(above: readonly number[], below: readonly number[]): Spread {
  return spreadOf(above.map((value, round) => value / (below[round] ?? NaN)));
}

/** @param sorted ascending; between two values, in proportion */
export function percentile(sorted: Float64Array, percent: number): number {
  const at = ((sorted.length - 1) * percent) / 100;
  const below = sorted[Math.floor(at)] ?? NaN;
  const above = sorted[Math.ceil(at)] ?? NaN;
  return below + (above - below) * (at - Math.floor(at));
}

/** Jain's index: 1 if all have the same, 1/n if one has everything. */
export function jainFairness(shares: readonly number[]): number {
  const sum = shares.reduce((total, share) => total + share, 0);
  const squares = shares.reduce((total, share) => total + share ** 2, 0);
  return squares === 0 ? NaN : sum ** 2 / (shares.length * squares);
}

/** Nanoseconds of CLOCK_MONOTONIC, which on Linux is one clock for all processes of the machine. */
export function monotonicNs(): number {
  return Number(process.hrtime.bigint());
}
