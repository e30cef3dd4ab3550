/** Rules for the length of leases, which docs/first-lease.md compares. */
import { SeededRandom } from 'kit';
import { CONDITIONS, DAY_S, type StallKind, WORK } from './conditions.js';
import { evaluate, type Leases, type Outcome } from './evaluate.js';

const LEASE_S = 30;
const LEAST_S = 3;
const STALLS = 4;
const SHORT_HOLD_S = 1;

/** How many weeks are drawn for what a service has learned. */
const WEEKS = 40;

const atThird = (leaseS: number): number => leaseS / 3;

/** How it goes for work of this kind, under these conditions. */
type Rule = (holds: readonly number[], stalls: readonly StallKind[]) => Outcome;

function fixed(leases: Leases): Rule {
  return (holds, stalls) => evaluate(leases, holds, stalls);
}

function always(leaseS: number): Leases {
  return { firstS: leaseS, leaseS, renewedAfter: atThird };
}

/** As `firstLeaseMs: 'learned'` does it, averaged over what it may have learned. */
function learned(holds: readonly number[], stalls: readonly StallKind[]): Outcome {
  if (quantile(holds, 0.95) > SHORT_HOLD_S) return evaluate(always(LEASE_S), holds, stalls);
  const outcomes = lengthsUnder(stalls).map((firstS) =>
    evaluate({ firstS, leaseS: LEASE_S, renewedAfter: atThird }, holds, stalls),
  );
  const mean = (of: (outcome: Outcome) => number): number =>
    outcomes.reduce((sum, outcome) => sum + of(outcome), 0) / WEEKS;
  return {
    freeAfterS: mean(({ freeAfterS }) => freeAfterS),
    lostPerMillion: mean(({ lostPerMillion }) => lostPerMillion),
  };
}

const known = new Map<readonly StallKind[], readonly number[]>();

/** The first leases that weeks under these conditions lead to. */
function lengthsUnder(stalls: readonly StallKind[]): readonly number[] {
  let lengths = known.get(stalls);
  if (lengths === undefined) {
    const random = new SeededRandom(2);
    lengths = Array.from({ length: WEEKS }, () =>
      Math.min(LEASE_S, Math.max(LEAST_S, STALLS * reckonedWith(stalls, random))),
    );
    known.set(stalls, lengths);
  }
  return lengths;
}

/** The longest stall of a day, or half of that of a week. */
function reckonedWith(stalls: readonly StallKind[], random: SeededRandom): number {
  const days = Array.from({ length: 7 }, () => longestOfDay(stalls, random));
  return Math.max(days[0] ?? 0, Math.max(...days) / 2);
}

function longestOfDay(stalls: readonly StallKind[], random: SeededRandom): number {
  return Math.max(
    0,
    ...stalls.flatMap((kind) => {
      const perDay = DAY_S / kind.everyS;
      const count = Math.floor(perDay) + (random.chance(perDay % 1) ? 1 : 0);
      return Array.from({ length: count }, () => kind.draw(random));
    }),
  );
}

function quantile(sorted: readonly number[], share: number): number {
  return sorted[Math.floor(sorted.length * share)] ?? NaN;
}

/** Three times what nearly all holds take, and never less than a second: the rule that suggests itself. */
function fromHolds(holds: readonly number[], stalls: readonly StallKind[]): Outcome {
  const leaseS = Math.min(LEASE_S, Math.max(1, 3 * quantile(holds, 0.99)));
  return evaluate(always(leaseS), holds, stalls);
}

export const RULES: Readonly<Record<string, Rule>> = {
  'always 30 s': fixed(always(30)),
  'always 10 s': fixed(always(10)),
  'always 5 s': fixed(always(5)),
  'always 3 s': fixed(always(3)),
  'first 5 s, then 30 s': fixed({ firstS: 5, leaseS: LEASE_S, renewedAfter: atThird }),
  'first learned, then 30 s': learned,
  '30 s, renewed 5 s before the end': fixed({
    firstS: LEASE_S,
    leaseS: LEASE_S,
    renewedAfter: (leaseS) => leaseS - 5,
  }),
  '3 times the longest of 99 % of holds': fromHolds,
};

/** For the picture: a lease that is always as long as this. */
export function lostWithLease(leaseS: number, work: string, condition: string): number {
  return evaluate(always(leaseS), WORK[work] ?? [], CONDITIONS[condition] ?? []).lostPerMillion;
}
