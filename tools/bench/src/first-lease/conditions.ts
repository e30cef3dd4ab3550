/** What keeps leases from being renewed, and how long keys are held. All times are in seconds. */
import { SeededRandom } from 'kit';

/** A kind of stall: how often it comes, and how long it lasts. */
export interface StallKind {
  readonly everyS: number;
  /** The probability that one lasts longer than this. */
  outlasts(seconds: number): number;
  draw(random: SeededRandom): number;
}

/** The logarithm of its length is normally distributed. Two thirds last between 0.6 and 1.65 times the median. */
function around(medianS: number, everyS: number): StallKind {
  const spread = 0.5;
  return {
    everyS,
    outlasts: (seconds) =>
      seconds <= 0 ? 1 : erfc(Math.log(seconds / medianS) / spread / Math.SQRT2) / 2,
    draw: (random) => logNormal(random, medianS, spread),
  };
}

/** Redis is away: for a failover, and then for as long again, or not. */
function outage(everyS: number): StallKind {
  const [failoverS, moreS] = [5, 8];
  return {
    everyS,
    outlasts: (seconds) => (seconds <= failoverS ? 1 : Math.exp(-(seconds - failoverS) / moreS)),
    draw: (random) => failoverS - moreS * Math.log(1 - random.next()),
  };
}

export const DAY_S = 86_400;

/** From a healthy process to one that should not be deployed like that. */
export const CONDITIONS: Readonly<Record<string, readonly StallKind[]>> = {
  calm: [around(0.06, 60), outage(30 * DAY_S)],
  throttled: [around(0.06, 60), around(0.9, 600), outage(7 * DAY_S)],
  'long collections': [around(0.06, 60), around(2.5, 3_600), outage(30 * DAY_S)],
};

const HOLDS = 4_000;

/** How long keys are held, as drawn with a seed. */
export const WORK: Readonly<Record<string, readonly number[]>> = {
  'a request, 20 ms': holds((random) => logNormal(random, 0.02, 0.7)),
  'a refill, 300 ms': holds((random) => logNormal(random, 0.3, 0.5)),
  'a job, 5 s': holds((random) => logNormal(random, 5, 0.7)),
  '1 in 100 takes 20 s': holds((random) => logNormal(random, random.chance(0.01) ? 20 : 0.03, 0.5)),
};

function holds(draw: (random: SeededRandom) => number): readonly number[] {
  const random = new SeededRandom(1);
  return Array.from({ length: HOLDS }, () => draw(random)).sort((a, b) => a - b);
}

function logNormal(random: SeededRandom, median: number, spread: number): number {
  const radius = Math.sqrt(-2 * Math.log(1 - random.next()));
  return median * Math.exp(spread * radius * Math.cos(2 * Math.PI * random.next()));
}

/** The complementary error function, to seven digits: the Chebyshev fit of Numerical Recipes (Press et al.). */
function erfc(x: number): number {
  const t = 1 / (1 + Math.abs(x) / 2);
  const coefficients = [
    -1.26551223, 1.00002368, 0.37409196, 0.09678418, -0.18628806, 0.27886807, -1.13520398,
    1.48851587, -0.82215223, 0.17087277,
  ];
  const sum = coefficients.reduceRight((rest, coefficient) => coefficient + t * rest, 0);
  const value = t * Math.exp(-x * x + sum);
  return x >= 0 ? value : 2 - value;
}
