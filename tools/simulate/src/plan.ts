import { SeededRandom } from 'kit';

export const KINDS = [
  'withLock',
  'acquire',
  'try',
  'several',
  'nested',
  'aborted',
  'fixed',
] as const;

export interface PlannedCall {
  readonly name: string;
  readonly kind: (typeof KINDS)[number];
  /** When it is called, in milliseconds after the start. */
  readonly atMs: number;
  readonly keys: readonly string[];
  readonly waitMs: number;
  readonly workMs: number;
  /** For calls that are aborted. */
  readonly abortMs: number;
}

export interface PlannedProcess {
  readonly name: string;
  readonly leaseMs: number;
  readonly lingerMs: number;
  readonly localHandovers: number | undefined;
  readonly startMs: number;
  readonly calls: readonly PlannedCall[];
}

export const FAULTS = [
  'pause a process',
  'kill a process',
  'a process vanishes',
  'close a process',
  'pause the server',
  'restart the server',
  'lose all data',
  'fail over',
  'cut a connection',
  'part a process',
  'step the clock',
  'forget scripts',
] as const;

export interface PlannedFault {
  readonly what: (typeof FAULTS)[number];
  readonly atMs: number;
  readonly forMs: number;
  /** Chooses among what there is. */
  readonly which: number;
}

/** All that is decided before a history begins; the rest follows from its seed. */
export interface Plan {
  readonly seed: number;
  readonly calmAtMs: number;
  readonly processes: readonly PlannedProcess[];
  readonly faults: readonly PlannedFault[];
}

export function planOf(seed: number): Plan {
  const random = new SeededRandom(seed);
  const calmAtMs = random.pick([3_000, 6_000, 12_000]);
  const keys = ['a', 'b', 'c'].slice(0, random.between(1, 3));
  const leaseMs = random.pick([500, 1_500, 6_000]);
  const processes = Array.from({ length: random.between(2, 4) }, (_, i): PlannedProcess => {
    const name = `p${i + 1}`;
    return {
      name,
      leaseMs,
      lingerMs: random.pick([0, 0, 50, 400]),
      localHandovers: random.pick([undefined, 0, 2]),
      startMs: random.chance(0.8) ? 0 : random.between(0, calmAtMs / 2),
      calls: Array.from({ length: random.between(1, 8) }, (__, j) =>
        callOf(random, `${j + 1}`, keys, calmAtMs, leaseMs),
      ).sort((a, b) => a.atMs - b.atMs),
    };
  });
  const count = random.pick([0, 1, 1, 2, 3, 5]);
  const faults = Array.from({ length: count }, (): PlannedFault => ({
    what: random.pick(FAULTS),
    atMs: random.between(0, calmAtMs - 1),
    forMs: random.pick([20, 200, leaseMs / 3, leaseMs, 2 * leaseMs]),
    which: random.between(0, 99),
  })).sort((a, b) => a.atMs - b.atMs);
  return { seed, calmAtMs, processes, faults };
}

function callOf(
  random: SeededRandom,
  name: string,
  keys: readonly string[],
  calmAtMs: number,
  leaseMs: number,
): PlannedCall {
  const kind =
    keys.length > 1 ? random.pick(KINDS) : random.pick(KINDS.filter((k) => k !== 'several'));
  const [one = ''] = [random.pick(keys)];
  return {
    name,
    kind,
    atMs: random.between(0, calmAtMs - 1),
    keys: kind === 'several' ? keys.filter((key) => key === one || random.chance(0.6)) : [one],
    waitMs: kind === 'try' ? 0 : random.pick([0, 50, 1_000, 10_000]),
    workMs: random.pick([0, 3, 20, 100, leaseMs * 0.8, leaseMs * 2]),
    abortMs: random.pick([0, 5, 100, 1_000]),
  };
}
