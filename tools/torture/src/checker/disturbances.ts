import type { Entry, Fault } from '../history/entry.js';
import { type Call, overAt } from './call.js';
import { coveredMs, type Interval, overlaps } from './intervals.js';

/** The time to connect again, to be queued again, and for a waiter to look once more. */
const HEALING_MS = 3_500;

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

/** Nobody hears what the proxy, which runs in this process, does not pass on. */
export const MAIN_PROCESS = 'main';

/** A process that works may write nothing for this long. */
const QUIET_MS = 750;
/** A process that was killed may have stood still in a gap of this length between two of its entries. */
const GAP_MS = 100;
/** How long a process that stood still may take until it says so: other things come first. */
const TELLING_MS = 300;

const CLOSING = 'an application closed';

/** Redis took long to answer, because of a fault or because of the machine. */
export const SLOW_PULSE = 'redis was slow';

/** What is excused, and by what. */
interface Excuse extends Interval {
  /** The name of a fault, or of what happened to a process. */
  readonly cause: string;
}

/** A time at which a server, or the way to it, was in trouble. */
interface Trouble extends Excuse {
  /** The keys that the server has. */
  readonly keys: 'all' | ReadonlySet<string>;
  /** Leases at least this long can be renewed all the same. */
  readonly keepsLeasesFromMs: number;
}

/** The shortest lease of a run. */
const ALL_LEASES = 0;
const NO_LEASES = Infinity;

/** What was done to Redis, to keys and to processes, and which calls it may have delayed. */
export class Disturbances {
  readonly faults: readonly Fault[];
  readonly #redis: Trouble[] = [];
  /** The same times, extended by the time until everything goes on as before. */
  readonly #untilHealed: Trouble[] = [];
  readonly #stalls = new Map<string, Interval[]>();
  /** For each key, the times until everything about it goes on as before. */
  readonly #keys = new Map<string, Excuse[]>();
  readonly #suspends: readonly (Interval & { readonly process: string })[];

  constructor(history: readonly Entry[], calls: Iterable<Call>) {
    this.faults = history.filter((entry) => entry.kind === 'fault');
    this.#suspends = this.faults.flatMap(({ at: from, until, forgets }) =>
      typeof forgets === 'object' && 'process' in forgets
        ? { from, until, process: forgets.process }
        : [],
    );
    for (const fault of this.faults) this.#addFault(fault);
    const byProcess = groupByProcess(calls);
    for (const { process, since, at } of stallsIn(history)) {
      this.#addStall(process, since, at);
      const healingMs = at - since >= ACCEPTANCE_MS / 3 ? ACCEPTANCE_MS : HICCUP_MS;
      const own = byProcess.get(process) ?? [];
      this.#addKeys('a worker stood still', own, since, at, () => healingMs);
    }
    for (const entry of history) {
      const own = 'process' in entry ? (byProcess.get(entry.process) ?? []) : [];
      if (entry.kind === 'killed' || entry.kind === 'exited') {
        const healingMs = ({ leaseMs }: Call): number => leaseMs + ACCEPTANCE_MS;
        this.#addKeys('a worker ended', own, entry.at, entry.at, healingMs);
      } else if (entry.kind === 'closing') {
        const until = entry.at + entry.shutdownMs;
        this.#addKeys(CLOSING, own, entry.at, until, () => ACCEPTANCE_MS);
        this.#addLeftBehind(own, { from: entry.at, until });
      }
    }
  }

  /** Whether the server of one of the keys, or the way to it, was in trouble at some time of the interval. */
  wasRedisInTrouble(interval: Interval, keys: readonly string[]): boolean {
    return this.#redis.some((trouble) => concerns(trouble, keys) && overlaps(trouble, interval));
  }

  /** Whether the server of one of the keys was in trouble then, or not everything went on as before yet. */
  wasRedisUnwell(process: string, interval: Interval, keys: readonly string[]): boolean {
    return this.#isHealing(interval, keys) || this.#isReconnecting(process, interval, keys);
  }

  /** The same, if the trouble was of a kind in which leases of this length cannot be renewed. */
  couldNotRenew(interval: Interval, key: string, leaseMs: number): boolean {
    return this.#untilHealed.some(
      (trouble) =>
        leaseMs < trouble.keepsLeasesFromMs &&
        concerns(trouble, [key]) &&
        overlaps(trouble, interval),
    );
  }

  /**
   * Whether, for this long without a break, the process cannot have reached the server of one of the keys. Between two
   * troubles it may have had no time to connect again.
   */
  wasAwayFor(process: string, ms: number, at: number, keys: readonly string[]): boolean {
    let since = at;
    for (;;) {
      const before = this.#redis
        .filter((trouble) => concerns(trouble, keys) && trouble.from < since)
        .filter(({ until }) => this.#ranMs(process, until, since) <= RECONNECT_MS);
      if (before.length === 0) return since <= at - ms;
      since = Math.min(...before.map(({ from }) => from));
    }
  }

  /** How long, in the interval, the server of one of the keys was in trouble or the process did nothing. */
  hinderedMs(process: string, interval: Interval, keys: 'all' | readonly string[]): number {
    const redis = this.#redis.filter((trouble) => concerns(trouble, keys));
    return coveredMs(interval, [...redis, ...this.#stallsOf(process)]);
  }

  /** How long the process did nothing in the interval. */
  stalledMs(process: string, interval: Interval): number {
    return coveredMs(interval, this.#stallsOf(process));
  }

  stoodStillAt(process: string, at: number): boolean {
    return this.#stallsOf(process).some(({ from, until }) => from <= at && at <= until);
  }

  /** For how long the process had stood still at that time. */
  stoodStillForMs(process: string, at: number): number {
    const stalls = this.#stallsOf(process).filter(({ from, until }) => from <= at && at <= until);
    return Math.max(0, ...stalls.map(({ from }) => at - from));
  }

  /** How long, in the interval, the process was suspended, so that its own clock stood still. */
  suspendedMs(process: string, interval: Interval): number {
    return coveredMs(
      interval,
      this.#suspends.filter((suspend) => suspend.process === process),
    );
  }

  /** The times at which waits for the key are excused, by what excuses them. */
  excusesOf(key: string): ReadonlyMap<string, readonly Interval[]> {
    const byCause = new Map<string, Interval[]>();
    const ofServer = this.#untilHealed.filter((trouble) => concerns(trouble, [key]));
    for (const { cause, from, until } of [...ofServer, ...(this.#keys.get(key) ?? [])]) {
      const intervals = byCause.get(cause) ?? [];
      byCause.set(cause, intervals);
      intervals.push({ from, until });
    }
    return byCause;
  }

  /** Whether something was done then, or shortly before, that delays the waiters for the key. */
  isKeyDisturbed(key: string, at: number): boolean {
    const instant = { from: at, until: at };
    if (this.#isHealing(instant, [key])) return true;
    return this.#keys.get(key)?.some((trouble) => overlaps(trouble, instant)) ?? false;
  }

  #addFault({ name: cause, at: from, until, disturbs, forgets, ...more }: Fault): void {
    if (typeof forgets === 'object' && 'unknownTo' in forgets) {
      this.#addKnown(cause, from, forgets);
    }
    if (disturbs === 'nothing') return;
    const usualMs = cause === SLOW_PULSE ? hiccupHealingMs(until - from) : HEALING_MS;
    const { healingMs = usualMs, keepsLeasesFromMs = NO_LEASES } = more;
    const trouble = { cause, from, until, keepsLeasesFromMs };
    if (disturbs === 'all') {
      this.#addTrouble({ ...trouble, keys: 'all' }, healingMs);
    } else if ('key' in disturbs) {
      this.#addKey(disturbs.key, { cause, from, until: until + healingMs });
    } else if ('slotOf' in disturbs) {
      const keys = new Set([disturbs.slotOf]);
      this.#addTrouble({ ...trouble, keys, keepsLeasesFromMs: ALL_LEASES }, healingMs);
    } else {
      this.#addTrouble({ ...trouble, keys: new Set(disturbs.serverOf) }, healingMs);
    }
  }

  #addTrouble(trouble: Trouble, healingMs: number): void {
    this.#redis.push(trouble);
    this.#untilHealed.push({ ...trouble, until: trouble.until + healingMs });
  }

  /** A replica that became master may have a lease that was given back, and then keeps the key until its end. */
  #addKnown(
    cause: string,
    from: number,
    { unknownTo }: Extract<Fault['forgets'], { unknownTo: unknown }>,
  ): void {
    for (const [key, lease] of Object.entries(unknownTo.leases)) {
      if (lease !== null) this.#addKey(key, { cause, from, until: lease.until + ACCEPTANCE_MS });
    }
  }

  #addStall(process: string, from: number, until: number): void {
    if (process === MAIN_PROCESS) {
      const cause = 'this program stood still';
      const keepsLeasesFromMs = NO_LEASES;
      const trouble = { cause, from, until, keys: 'all', keepsLeasesFromMs } as const;
      this.#addTrouble(trouble, hiccupHealingMs(until - from));
    } else {
      this.#stallsOf(process).push({ from, until });
    }
  }

  /** The same for every key that these calls had or wanted in the interval, or whose unused lease was kept there. */
  #addKeys(
    cause: string,
    calls: readonly Call[],
    from: number,
    until: number,
    healingMs: (call: Call) => number,
  ): void {
    for (const call of calls) {
      if (call.askedAt > until || overAt(call) + call.lingerMs < from) continue;
      for (const key of call.keys) {
        this.#addKey(key, { cause, from, until: until + healingMs(call) });
      }
    }
  }

  /**
   * What a process has sent to a server that does not answer may be carried out after the process has ended. It then
   * has a lease that nobody gives back.
   */
  #addLeftBehind(calls: readonly Call[], closing: Interval): void {
    for (const { from, until, keys } of this.#redis.filter((one) => overlaps(one, closing))) {
      const concerned = calls.filter((call) => concerns({ keys }, call.keys));
      this.#addKeys(CLOSING, concerned, from, until, ({ leaseMs }) => leaseMs + ACCEPTANCE_MS);
    }
  }

  #addKey(key: string, excuse: Excuse): void {
    const excuses = this.#keys.get(key) ?? [];
    this.#keys.set(key, excuses);
    excuses.push(excuse);
  }

  #isHealing(interval: Interval, keys: readonly string[]): boolean {
    return this.#untilHealed.some(
      (trouble) => concerns(trouble, keys) && overlaps(trouble, interval),
    );
  }

  /** While a process stands still, it does not connect again. */
  #isReconnecting(process: string, { from, until }: Interval, keys: readonly string[]): boolean {
    return this.#redis.some(
      (trouble) =>
        concerns(trouble, keys) &&
        trouble.from <= until &&
        this.#ranMs(process, trouble.until, from) <= RECONNECT_MS,
    );
  }

  /** How long, from then until then, the process did not stand still. Not positive if it was the other way round. */
  #ranMs(process: string, from: number, until: number): number {
    return until - from - this.stalledMs(process, { from, until });
  }

  #stallsOf(process: string): Interval[] {
    const stalls = this.#stalls.get(process) ?? [];
    this.#stalls.set(process, stalls);
    return stalls;
  }
}

function concerns({ keys }: Pick<Trouble, 'keys'>, wanted: 'all' | readonly string[]): boolean {
  if (keys === 'all' || wanted === 'all') return true;
  return wanted.some((key) => keys.has(key));
}

interface Stall {
  readonly process: string;
  readonly since: number;
  readonly at: number;
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
      if (at - since > QUIET_MS) stalls.push({ process, since, at });
      else if (gap !== undefined && at - gap.until <= TELLING_MS)
        stalls.push({ process, since: gap.from, at });
    } else if (entry.kind === 'stalled') {
      stalls.push(entry);
      gaps.delete(process);
    } else if (at - since > GAP_MS) {
      gaps.set(process, { from: since, until: at });
    }
  }
  return stalls;
}

function groupByProcess(calls: Iterable<Call>): Map<string, Call[]> {
  const groups = new Map<string, Call[]>();
  for (const call of calls) {
    const group = groups.get(call.process);
    if (group === undefined) groups.set(call.process, [call]);
    else group.push(call);
  }
  return groups;
}
