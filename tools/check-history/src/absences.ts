/** A time at which one of several nodes could not be counted on. */
export interface Absence {
  readonly node: number | string;
  readonly from: number;
  readonly until: number;
}

/**
 * The times at which more nodes than `most` were away at once.
 *
 * @param within only times in this interval
 */
export function tooManyAway(
  absences: readonly Absence[],
  most: number,
  within: Pick<Absence, 'from' | 'until'>,
): Pick<Absence, 'from' | 'until'>[] {
  const near = absences.filter(({ from, until }) => from < within.until && until > within.from);
  const edges = near.flatMap(({ from, until }) => [from, until]);
  const times = [...new Set([within.from, ...edges, within.until])]
    .filter((at) => at >= within.from && at <= within.until)
    .sort((a, b) => a - b);
  const found: { from: number; until: number }[] = [];
  for (const [n, from] of times.entries()) {
    const until = times[n + 1];
    if (until === undefined) break;
    const away = near.filter((absence) => absence.from <= from && absence.until >= until);
    if (new Set(away.map(({ node }) => node)).size <= most) continue;
    const last = found.at(-1);
    if (last?.until === from) last.until = until;
    else found.push({ from, until });
  }
  return found;
}
