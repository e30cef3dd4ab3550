import { groupBy } from '../collections.js';
import {
  type Entry,
  type Fault,
  MAIN_PROCESS,
  type Promoted,
  SLOW_PULSE,
} from '../history/entry.js';
import { type Call, overAt } from './call.js';
import { coveredMs, type Interval, overlaps } from './intervals.js';

/** The time to connect again, to be queued again, and for a waiter to look once more. */
const HEALING_MS = 3_500;
/** Within which a process has noticed that its machine was suspended, and Redis has told it which leases are over. */
export const WAKING_MS = 1_250;

/** The longest pause before connecting again, and a round trip. */
const RECONNECT_MS = 1_250;

/** Nothing was lost; it was only late. */
const HICCUP_MS = 50;

/** After a moment without an answer, nothing has to be connected again, but a time limit may have passed. */
function hiccupHealingMs(ms: number): number {
  return ms < 150 ? HICCUP_MS : 1_500;
}

/** A grant to a process that does nothing ends with its acceptance lease. */
const ACCEPTANCE_MS = 1_500;

/** A process that works may write nothing for this long. */
const QUIET_MS = 750;
/** A process that was killed may have stood still in a gap of this length between two of its entries. */
const GAP_MS = 100;
/** How long a process that stood still may take until it says so: other things come first. */
const TELLING_MS = 300;

const CLOSING = 'an application closed';

/** A time that is excused, and what excuses it: the name of a fault, or of what happened to a process. */
interface Excuse extends Interval {
  readonly cause: string;
}

/** A time at which a server, or the way to it, was in trouble. */
interface Trouble extends Excuse {
  /** The keys that the server has. */
  readonly keys: 'all' | ReadonlySet<string>;
  /** Leases at least this long can be renewed all the same. */
  readonly keepsLeasesFromMs: number;
  /** For this long after it, not everything goes on as before. */
  readonly healingMs: number;
}

/** The shortest lease of a run. */
const ALL_LEASES = 0;
const NO_LEASES = Infinity;

/** What was done to Redis, to keys and to processes, and which calls it may have delayed. */
export class Disturbances {
  readonly faults: readonly Fault[];
  readonly #troubles: Trouble[] = [];
  readonly #stalls: ReadonlyMap<string, readonly Stall[]>;
  /** For each key, the times until everything about it goes on as before. */
  readonly #keys = new Map<string, Excuse[]>();

  constructor(history: readonly Entry[], calls: Iterable<Call>) {
    this.faults = history.filter((entry) => entry.kind === 'fault');
    for (const fault of this.faults) this.#addFault(fault);
    const byProcess = groupBy(calls, ({ process }) => process);
    this.#stalls = groupBy(stallsIn(history), ({ process }) => process);
    for (const { process, from, until } of [...this.#stalls.values()].flat()) {
      const healingMs = until - from >= ACCEPTANCE_MS / 3 ? ACCEPTANCE_MS : HICCUP_MS;
      const own = byProcess.get(process) ?? [];
      this.#addKeys('a worker stood still', own, { from, until }, () => healingMs);
    }
    for (const { from, until } of this.#stallsOf(MAIN_PROCESS)) {
      const whole = { keys: 'all', keepsLeasesFromMs: NO_LEASES } as const;
      const healingMs = hiccupHealingMs(until - from);
      this.#troubles.push({ cause: 'this program stood still', from, until, healingMs, ...whole });
    }
    for (const entry of history) {
      const own = 'process' in entry ? (byProcess.get(entry.process) ?? []) : [];
      const { at: from } = entry;
      if (entry.kind === 'killed' || entry.kind === 'exited') {
        this.#addKeys('a worker ended', own, { from, until: from }, lifeMs);
      } else if (entry.kind === 'closing') {
        const closing = { from, until: from + entry.shutdownMs };
        this.#addKeys(CLOSING, own, closing, () => ACCEPTANCE_MS);
        this.#addLeftBehind(own, closing);
      }
    }
  }

  /** Whether the server of one of the keys, or the way to it, was in trouble at some time of the interval. */
  wasRedisInTrouble(interval: Interval, keys: readonly string[]): boolean {
    return this.#concerning(keys).some((trouble) => overlaps(trouble, interval));
  }

  /** Whether the server of one of the keys was in trouble then, or not everything went on as before yet. */
  wasRedisUnwell(process: string, interval: Interval, keys: readonly string[]): boolean {
    return this.#isHealing(interval, keys) || this.#isReconnecting(process, interval, keys);
  }

  /** The same, if the trouble was of a kind in which leases of this length cannot be renewed. */
  couldNotRenew(interval: Interval, key: string, leaseMs: number): boolean {
    return this.#concerning([key]).some(
      (trouble) => leaseMs < trouble.keepsLeasesFromMs && overlaps(untilHealed(trouble), interval),
    );
  }

  /**
   * Whether, for this long without a break, the process cannot have reached the server of one of the keys. Between two
   * troubles it may have had no time to connect again.
   */
  wasAwayFor(process: string, ms: number, at: number, keys: readonly string[]): boolean {
    let since = at;
    for (;;) {
      const before = this.#concerning(keys).filter(
        ({ from, until }) => from < since && this.#ranMs(process, until, since) <= RECONNECT_MS,
      );
      if (before.length === 0) return since <= at - ms;
      since = Math.min(...before.map(({ from }) => from));
    }
  }

  /** How long, in the interval, the server of one of the keys was in trouble or the process did nothing. */
  hinderedMs(process: string, interval: Interval, keys: 'all' | readonly string[]): number {
    return coveredMs(interval, [...this.#concerning(keys), ...this.#stallsOf(process)]);
  }

  /** How long the process did nothing in the interval. */
  stalledMs(process: string, interval: Interval): number {
    return coveredMs(interval, this.#stallsOf(process));
  }

  stoodStillAt(process: string, at: number): boolean {
    return this.#stallsOf(process).some((stall) => overlaps(stall, { from: at, until: at }));
  }

  /** For how long the process had stood still at that time. */
  stoodStillForMs(process: string, at: number): number {
    const since = this.#stallsOf(process).map(({ from, until }) => (until < at ? at : from));
    return Math.max(0, ...since.map((from) => at - from));
  }

  /** How long, in the interval, the process was suspended, so that its own clock stood still. */
  suspendedMs(process: string, interval: Interval): number {
    return coveredMs(interval, this.#suspendsOf(process));
  }

  /**
   * How long, in the interval, the process did nothing, or had not noticed yet that its machine was suspended, or then
   * could not ask the server of the keys whether it still has them.
   */
  unawareMs(process: string, interval: Interval, keys: readonly string[]): number {
    const wakings = this.#suspendsOf(process).map(({ until: from }) => {
      return { from, until: from + WAKING_MS };
    });
    const isWaking = wakings.some((waking) => overlaps(waking, interval));
    const troubles = isWaking ? this.#concerning(keys).map(untilHealed) : [];
    return coveredMs(interval, [...this.#stallsOf(process), ...wakings, ...troubles]);
  }

  /** The times at which waits for the key are excused, by what excuses them. */
  excusesOf(key: string): ReadonlyMap<string, readonly Interval[]> {
    const ofServer = this.#concerning([key]).map(untilHealed);
    return groupBy([...ofServer, ...(this.#keys.get(key) ?? [])], ({ cause }) => cause);
  }

  /** Whether something was done then, or shortly before, that delays the waiters for the key. */
  isKeyDisturbed(key: string, at: number): boolean {
    const instant = { from: at, until: at };
    if (this.#isHealing(instant, [key])) return true;
    return this.#keys.get(key)?.some((trouble) => overlaps(trouble, instant)) ?? false;
  }

  #addFault({ name: cause, at: from, until, disturbs, forgets, ...more }: Fault): void {
    if (typeof forgets === 'object' && 'unknownTo' in forgets) {
      this.#addKnown(cause, from, forgets.unknownTo);
    }
    if (disturbs === 'nothing') return;
    const usualMs = cause === SLOW_PULSE ? hiccupHealingMs(until - from) : HEALING_MS;
    const { healingMs = usualMs, keepsLeasesFromMs = NO_LEASES } = more;
    const trouble = { cause, from, until, keepsLeasesFromMs, healingMs };
    if (disturbs === 'all') {
      this.#troubles.push({ ...trouble, keys: 'all' });
    } else if ('key' in disturbs) {
      this.#addKey(disturbs.key, untilHealed(trouble));
    } else if ('slotOf' in disturbs) {
      const keys = new Set([disturbs.slotOf]);
      this.#troubles.push({ ...trouble, keys, keepsLeasesFromMs: ALL_LEASES });
    } else {
      this.#troubles.push({ ...trouble, keys: new Set(disturbs.serverOf) });
    }
  }

  /** A replica that became master may have a lease that was given back, and then keeps the key until its end. */
  #addKnown(cause: string, from: number, { leases }: Promoted): void {
    for (const [key, lease] of Object.entries(leases)) {
      if (lease !== null) this.#addKey(key, { cause, from, until: lease.until + ACCEPTANCE_MS });
    }
  }

  /** The same for every key that these calls had or wanted in the interval, or whose unused lease was kept there. */
  #addKeys(
    cause: string,
    calls: readonly Call[],
    { from, until }: Interval,
    healingMs: (call: Call) => number,
  ): void {
    for (const call of calls) {
      if (call.askedAt > until || overAt(call) + call.lingerMs < from) continue;
      const excuse = { cause, from, until: until + healingMs(call) };
      for (const key of call.keys) this.#addKey(key, excuse);
    }
  }

  /**
   * What a process has sent to a server that does not answer may be carried out after the process has ended. It then
   * has a lease that nobody gives back.
   */
  #addLeftBehind(calls: readonly Call[], closing: Interval): void {
    for (const trouble of this.#troubles.filter((one) => overlaps(one, closing))) {
      const concerned = calls.filter(({ keys }) => concerns(trouble, keys));
      this.#addKeys(CLOSING, concerned, trouble, lifeMs);
    }
  }

  #addKey(key: string, excuse: Excuse): void {
    const excuses = this.#keys.get(key) ?? [];
    this.#keys.set(key, excuses);
    excuses.push(excuse);
  }

  #concerning(keys: 'all' | readonly string[]): Trouble[] {
    return this.#troubles.filter((trouble) => concerns(trouble, keys));
  }

  #isHealing(interval: Interval, keys: readonly string[]): boolean {
    return this.#troubles.some(
      (trouble) => concerns(trouble, keys) && overlaps(untilHealed(trouble), interval),
    );
  }

  /** While a process stands still, it does not connect again. */
  #isReconnecting(process: string, { from, until }: Interval, keys: readonly string[]): boolean {
    return this.#concerning(keys).some(
      (trouble) =>
        trouble.from <= until && this.#ranMs(process, trouble.until, from) <= RECONNECT_MS,
    );
  }

  /** How long, from then until then, the process did not stand still. Not positive if it was the other way round. */
  #ranMs(process: string, from: number, until: number): number {
    return until - from - this.stalledMs(process, { from, until });
  }

  #suspendsOf(process: string): Interval[] {
    return this.faults.flatMap(({ at: from, until, forgets }) =>
      typeof forgets === 'object' && 'process' in forgets && forgets.process === process
        ? { from, until }
        : [],
    );
  }

  #stallsOf(process: string): readonly Stall[] {
    return this.#stalls.get(process) ?? [];
  }
}

/** How long a lease lasts that nobody gives back, and what comes after it. */
function lifeMs({ leaseMs }: Call): number {
  return leaseMs + ACCEPTANCE_MS;
}

/** The time until everything goes on as before. */
function untilHealed({ cause, from, until, healingMs }: Omit<Trouble, 'keys'>): Excuse {
  return { cause, from, until: until + healingMs };
}

function concerns({ keys }: Trouble, wanted: 'all' | readonly string[]): boolean {
  return keys === 'all' || wanted === 'all' || wanted.some((key) => keys.has(key));
}

interface Stall extends Interval {
  readonly process: string;
}

/**
 * A process writes down how long it stood still when that is over. One that was killed meanwhile could not: it may have
 * stood still since its latest entry. Nor could one that was killed right afterwards, while it still wrote what had
 * come of it: it may have stood still in the latest gap between its entries, and has done nothing else since then.
 */
function stallsIn(history: readonly Entry[]): Stall[] {
  const latest = new Map<string, number>();
  const gaps = new Map<string, Interval>();
  const processes = new Map<string, string>();
  const stalls: Stall[] = [];
  for (const entry of history) {
    if (entry.kind === 'asked') processes.set(entry.call, entry.process);
    const process =
      'process' in entry ? entry.process : 'call' in entry && processes.get(entry.call);
    if (!process) continue;
    const { at } = entry;
    const since = latest.get(process) ?? at;
    latest.set(process, at);
    if (entry.kind === 'killed') {
      const gap = gaps.get(process);
      if (at - since > QUIET_MS) stalls.push({ process, from: since, until: at });
      else if (gap !== undefined && at - gap.until <= TELLING_MS)
        stalls.push({ process, from: gap.from, until: at });
    } else if (entry.kind === 'stalled') {
      stalls.push({ process, from: entry.since, until: at });
      gaps.delete(process);
    } else if (at - since > GAP_MS) {
      gaps.set(process, { from: since, until: at });
    }
  }
  return stalls;
}
