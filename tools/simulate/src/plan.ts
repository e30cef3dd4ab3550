import { SeededRandom } from 'kit';
import { withHandOffs } from './hand-offs.js';
import { withPermits } from './permits.js';
import type { QUORUM_FAULTS } from './quorum-plan.js';
import { withReaders } from './readers.js';

export const KINDS = [
  'withLock',
  'acquire',
  'try',
  'several',
  'nested',
  'aborted',
  'fixed',
  'kept',
  'look',
  'force',
] as const;

/** What most calls are: somebody looks at a key, or takes it away by force, now and then. */
const USUAL_KINDS = KINDS.filter((kind) => kind !== 'look' && kind !== 'force');

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
  /** For calls that keep their keys, however short the work is. */
  readonly keepMs?: number;
  /** Others may read at the same time. */
  readonly mode?: 'shared';
  /** The keys of which it wants permits, and how many there are of each. */
  readonly permits?: Readonly<Record<string, number>>;
  readonly weight?: number;
  /** What becomes of its lock after its work, instead of being released. */
  readonly handOff?: HandOff;
  /** Whether a nested call only reads. */
  readonly nestedReads?: boolean;
  /** After how long its hold is over, whatever the work does. */
  readonly maxHoldMs?: number;
  readonly label?: string;
  /** Whether the work prolongs its lease by far, once. */
  readonly prolongs?: boolean;
}

/** A lock is detached after the work, and others try to adopt it. */
export interface HandOff {
  readonly forMs: number;
  readonly adopters: readonly PlannedAdopter[];
}

export interface PlannedAdopter {
  /** The name of its process. */
  readonly process: string;
  /** When it tries to, after the lock was detached. */
  readonly afterMs: number;
  readonly workMs: number;
  readonly handOff?: HandOff;
}

export interface PlannedProcess {
  readonly name: string;
  readonly leaseMs: number;
  readonly lingerMs: number;
  readonly localHandovers: number | undefined;
  /** How long fencing numbers are kept, at least; the library's own time if it is undefined. */
  readonly fenceKeepMs?: number | undefined;
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
  'fill the memory',
  'refuse PUBLISH',
  'refuse PUBSUB',
  'refuse ZADD',
  'refuse SET',
  'refuse ZREM',
  'deafen a process',
  'another program writes',
  'refuse writes',
] as const;

/** Those that are drawn for every history. The last one came later, and the histories of older seeds stay the same. */
const DRAWN = FAULTS.filter((what) => what !== 'refuse writes');
const LATER = 0x5eed;

export type FaultOfOne = (typeof FAULTS)[number];

export interface PlannedFault<What = FaultOfOne | (typeof QUORUM_FAULTS)[number]> {
  readonly what: What;
  readonly atMs: number;
  readonly forMs: number;
  /** Chooses among what there is. */
  readonly which: number;
}

/** Whether it happens to a process, or to the one server that there is. */
export function isOfOne(what: PlannedFault['what']): what is FaultOfOne {
  return (FAULTS as readonly string[]).includes(what);
}

/** Independent servers, of which more than half vote for each lock. */
export interface PlannedQuorum {
  /** How far the clock of each server is ahead, in milliseconds. */
  readonly clocksMs: readonly number[];
  /** 0 if no server loses anything. */
  readonly rejoinAfterMs: number;
}

/** All that is decided before a history begins; the rest follows from its seed. */
export interface Plan {
  readonly seed: number;
  readonly calmAtMs: number;
  /** No packet is late or lost, so that what comes late is not the network's doing. */
  readonly isQuiet?: boolean;
  /** The servers, if it is not a single one. */
  readonly quorum?: PlannedQuorum;
  readonly processes: readonly PlannedProcess[];
  readonly faults: readonly PlannedFault[];
}

/** What lasts until somebody puts it right. */
const LASTING = /^(?:fill|refuse|deafen|another)/;

export function planOf(seed: number): Plan {
  const random = new SeededRandom(seed);
  const calmAtMs = random.pick([3_000, 6_000, 12_000]);
  const keys = ['a', 'b', 'c'].slice(0, random.between(1, 3));
  const leaseMs = random.pick([500, 1_500, 6_000]);
  const isQuiet = random.chance(0.5);
  const count = random.pick([0, 1, 2, 2, 4, 6]);
  const drawn = Array.from({ length: count }, (): PlannedFault => {
    const what = random.chance(0.08) ? 'step the clock' : random.pick(DRAWN);
    const times = LASTING.test(what)
      ? [leaseMs, 2 * leaseMs, 5_000]
      : [20, 200, leaseMs / 3, leaseMs, 2 * leaseMs];
    const atMs = random.between(0, calmAtMs - 1);
    return { what, atMs, forMs: random.pick(times), which: random.between(0, 99) };
  }).sort((a, b) => a.atMs - b.atMs);
  // Places that a process which polls could not leave get their turns later, for up to a second each.
  const isPolling = drawn.some(({ what }) => what === 'deafen a process');
  const faults = drawn.filter(({ what }) => what !== 'refuse ZREM' || !isPolling);
  // Without the numbers before, a clock that is set back gives some of them again.
  const isClockSet = faults.some(({ what }) => what === 'step the clock');
  const fenceKeepMs = !isClockSet && random.chance(0.2) ? 0 : undefined;
  const calls = new CallPlanner(random, keys, calmAtMs, leaseMs, faults);
  const later = new SeededRandom(seed ^ LATER);
  if (later.chance(0.1) && !isPolling) {
    const atMs = later.between(0, calmAtMs - 1);
    const forMs = later.pick([leaseMs / 3, leaseMs, 2 * leaseMs, 5_000]);
    faults.push({ what: 'refuse writes', atMs, forMs, which: 0 });
  }
  const processes = Array.from({ length: random.between(2, 4) }, (_, i): PlannedProcess => {
    const name = `p${i + 1}`;
    return {
      name,
      leaseMs,
      lingerMs: random.pick([0, 0, 50, 400]),
      localHandovers: random.pick([undefined, 0, 2]),
      fenceKeepMs,
      startMs: random.chance(0.8) ? 0 : random.between(0, calmAtMs / 2),
      calls: Array.from({ length: random.between(1, 8) }, (__, j) => calls.next(`${j + 1}`)).sort(
        (a, b) => a.atMs - b.atMs,
      ),
    };
  });
  const mixed = withPermits(seed, calmAtMs, withReaders(seed, calmAtMs, processes));
  return { seed, calmAtMs, isQuiet, processes: withHandOffs(seed, mixed), faults };
}

/** Draws calls, some of them at moments at which much happens at once. */
export class CallPlanner {
  /** When much happens at once: at any time, and when the lease of somebody who had a fault ends. */
  readonly #moments: readonly number[];

  constructor(
    private readonly random: SeededRandom,
    private readonly keys: readonly string[],
    private readonly calmAtMs: number,
    private readonly leaseMs: number,
    faults: readonly PlannedFault[],
  ) {
    this.#moments = [
      random.between(0, calmAtMs - 1),
      ...faults.flatMap(({ atMs, forMs }) => [atMs + leaseMs, atMs + forMs]),
    ].filter((atMs, i) => i === 0 || atMs < calmAtMs);
  }

  next(name: string): PlannedCall {
    const { random, keys, leaseMs } = this;
    const kinds = USUAL_KINDS.filter((each) => keys.length > 1 || each !== 'several');
    const kind = random.chance(0.06) ? random.pick(['look', 'force'] as const) : random.pick(kinds);
    const one = random.pick(keys);
    const atMs = random.chance(0.3) ? this.#nearAMoment() : random.between(0, this.calmAtMs - 1);
    const untilAMoment = Math.max(50, this.#nearAMoment() - atMs);
    return {
      name,
      kind,
      atMs,
      keys: kind === 'several' ? keys.filter((key) => key === one || random.chance(0.6)) : [one],
      waitMs: kind === 'try' ? 0 : random.pick([0, 50, 1_000, 10_000, 10_000, untilAMoment]),
      workMs: random.pick([0, 3, 20, 100, leaseMs * 0.8, leaseMs * 2]),
      abortMs: random.pick([0, 5, 100, 1_000, untilAMoment]),
      ...(kind === 'kept' && { keepMs: random.pick([200, leaseMs * 2]) }),
      ...(random.chance(0.3) && { label: `call ${name}` }),
      prolongs: random.chance(0.2),
    };
  }

  #nearAMoment(): number {
    return Math.max(0, this.random.pick(this.#moments) + this.random.between(-3, 3));
  }
}
