/** What a rule for the length of leases costs and gives, computed from the lengths of holds and stalls. */
import type { StallKind } from './conditions.js';

/** The leases of one hold, in seconds. */
export interface Leases {
  readonly firstS: number;
  readonly leaseS: number;
  /** How long after its sending a lease of this length is renewed. */
  readonly renewedAfter: (leaseS: number) => number;
}

export interface Outcome {
  /** How long a key stays taken after its holder has died, on average. A crash meets a hold as often as it is long. */
  readonly freeAfterS: number;
  /** How many of a million holds lose their lease although their process lives. */
  readonly lostPerMillion: number;
}

const STEPS = 200;

/** @param holds their lengths, in seconds */
export function evaluate(
  leases: Leases,
  holds: readonly number[],
  stalls: readonly StallKind[],
): Outcome {
  // A stall ends the hold if it outlasts the rest of the lease, and begins before the hold is over.
  const loss = overTime(leases, (leftS) =>
    stalls.reduce((sum, kind) => sum + kind.outlasts(leftS) / kind.everyS, 0),
  );
  const left = overTime(leases, (leftS) => leftS);
  const total = (of: (holdS: number) => number): number =>
    holds.reduce((sum, holdS) => sum + of(holdS), 0);
  return {
    freeAfterS: total(left) / total((holdS) => holdS),
    lostPerMillion: (1e6 * total(loss)) / holds.length,
  };
}

/**
 * The integral, over the time of a hold, of a function of what is left of its lease.
 * @returns it for a hold of this length
 */
function overTime(
  { firstS, leaseS, renewedAfter }: Leases,
  of: (leftS: number) => number,
): (holdS: number) => number {
  const firstRenewalS = renewedAfter(firstS);
  const everyS = renewedAfter(leaseS);
  const first = integral(firstS, firstRenewalS, of);
  const later = integral(leaseS, everyS, of);
  return (holdS) => {
    if (holdS <= firstRenewalS) return first(holdS);
    const renewedS = holdS - firstRenewalS;
    const rounds = Math.floor(renewedS / everyS);
    return first(firstRenewalS) + rounds * later(everyS) + later(renewedS - rounds * everyS);
  };
}

/** Of a lease of this length, from its beginning for at most so long: its values are summed up once. */
function integral(
  lengthS: number,
  mostS: number,
  of: (leftS: number) => number,
): (untilS: number) => number {
  const stepS = mostS / STEPS;
  let sum = 0;
  const sums = [
    0,
    ...Array.from({ length: STEPS }, (_, i) => (sum += stepS * of(lengthS - (i + 0.5) * stepS))),
  ];
  return (untilS) => {
    const at = Math.min(untilS / stepS, STEPS);
    const [before = 0, after = before] = sums.slice(Math.floor(at), Math.floor(at) + 2);
    return before + (at - Math.floor(at)) * (after - before);
  };
}
