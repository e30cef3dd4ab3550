import { type Goal, isMet, type Results } from '../results.js';
import { inDigits, withSpread } from './format.js';

/** By how much a ratio may be worse than it was at the last release, beyond the spread of both runs. */
const TOLERANCE = 0.15;

/** A sentence for each goal that this run is further from than the release was. */
export function regressions(now: Pick<Results, 'scenarios'>, release: Results): string[] {
  const before = new Map(goalsOf(release).map((goal) => [goal.id, goal]));
  return goalsOf(now).flatMap((goal) => {
    const earlier = before.get(goal.id);
    if (earlier === undefined || !isWorse(goal, earlier)) return [];
    return [
      `${goal.text}: ${withSpread(goal.value)}, at the release of ${release.version} ${withSpread(earlier.value)}` +
        ` (goal ${inDigits(goal.aim)})`,
    ];
  });
}

/** How many goals both runs have measured. */
export function comparable(now: Pick<Results, 'scenarios'>, release: Results): number {
  const before = new Set(goalsOf(release).map(({ id }) => id));
  return goalsOf(now).filter(({ id }) => before.has(id)).length;
}

function isWorse(now: Goal, before: Goal): boolean {
  if (now.isLimit === true) return isMet(before) && !isMet(now);
  return now.better === 'higher'
    ? now.value.high < before.value.low * (1 - TOLERANCE)
    : now.value.low > before.value.high * (1 + TOLERANCE);
}

function goalsOf({ scenarios }: Pick<Results, 'scenarios'>): Goal[] {
  return scenarios.flatMap(({ goals }) => goals);
}
