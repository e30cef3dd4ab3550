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

/** Redis took long to answer, because of a fault or because of the machine. */
export const SLOW_PULSE = 'redis was slow';

/** A time at which a server, or the way to it, was in trouble. */
interface Trouble extends Interval {
  /** The keys that the server has. */
  readonly keys: 'all' | readonly string[];
  /** Leases can be renewed all the same. */
  readonly keepsLeases: boolean;
}

/** What was done to Redis, to keys and to processes, and which calls it may have delayed. */
export class Disturbances {
  readonly faults: readonly Fault[];
  readonly #redis: Trouble[] = [];
  /** The same times, extended by the time until everything goes on as before. */
  readonly #untilHealed: Trouble[] = [];
  readonly #stalls = new Map<string, Interval[]>();
  /** For each key, the times until everything about it goes on as before. */
  readonly #keys = new Map<string, Interval[]>();

  constructor(history: readonly Entry[], calls: Iterable<Call>) {
    this.faults = history.filter((entry) => entry.kind === 'fault');
    for (const fault of this.faults) this.#addFault(fault);
    const byProcess = groupByProcess(calls);
    for (const entry of history) {
      if (entry.kind === 'stalled') this.#addStall(entry.process, entry.since, entry.at);
    }
    for (const entry of history) {
      const own = 'process' in entry ? (byProcess.get(entry.process) ?? []) : [];
      if (entry.kind === 'stalled') {
        const isLong = entry.at - entry.since >= ACCEPTANCE_MS / 3;
        const healingMs = isLong ? ACCEPTANCE_MS : HICCUP_MS;
        this.#addKeys(own, entry.since, entry.at, () => healingMs);
      } else if (entry.kind === 'killed' || entry.kind === 'exited') {
        this.#addKeys(own, entry.at, entry.at, ({ leaseMs }) => leaseMs + ACCEPTANCE_MS);
      } else if (entry.kind === 'closing') {
        const until = entry.at + entry.shutdownMs;
        this.#addKeys(own, entry.at, until, () => ACCEPTANCE_MS);
        this.#addLeftBehind(own, { from: entry.at, until });
      }
    }
  }

  /** Whether the server of one of the keys, or the way to it, was in trouble at some time of the interval. */
  wasRedisInTrouble(interval: Interval, keys: readonly string[]): boolean {
    return this.#redis.some((trouble) => concerns(trouble, keys) && overlaps(trouble, interval));
  }

  /** Whether the server of one of the keys was in trouble then, or not everything went on as before yet. */
  wasRedisUnwell(interval: Interval, keys: readonly string[]): boolean {
    return this.#untilHealed.some(
      (trouble) => concerns(trouble, keys) && overlaps(trouble, interval),
    );
  }

  /** The same, if the trouble was of a kind in which leases cannot be renewed. */
  couldNotRenew(interval: Interval, key: string): boolean {
    return this.#untilHealed.some(
      (trouble) => !trouble.keepsLeases && concerns(trouble, [key]) && overlaps(trouble, interval),
    );
  }

  /** Whether, for this long without a break, the server of one of the keys cannot have been reached. */
  wasAwayFor(ms: number, at: number, keys: readonly string[]): boolean {
    return this.#redis.some(
      (trouble) =>
        concerns(trouble, keys) && trouble.from <= at - ms && at <= trouble.until + RECONNECT_MS,
    );
  }

  /** How long, in the interval, the server of one of the keys was in trouble or the process did nothing. */
  hinderedMs(process: string, interval: Interval, keys: Trouble['keys']): number {
    const redis = this.#redis.filter((trouble) => concerns(trouble, keys));
    return coveredMs(interval, [...redis, ...this.#stallsOf(process)]);
  }

  /** How long the process did nothing in the interval. */
  stalledMs(process: string, interval: Interval): number {
    return coveredMs(interval, this.#stallsOf(process));
  }

  /** Whether something was done then, or shortly before, that delays the waiters for the key. */
  isKeyDisturbed(key: string, at: number): boolean {
    const instant = { from: at, until: at };
    if (this.wasRedisUnwell(instant, [key])) return true;
    return this.#keys.get(key)?.some((trouble) => overlaps(trouble, instant)) ?? false;
  }

  #addFault({ name, at: from, until, disturbs, forgets, ...more }: Fault): void {
    if (typeof forgets === 'object' && 'unknownTo' in forgets) this.#addKnown(from, forgets);
    if (disturbs === 'nothing') return;
    const usualMs = name === SLOW_PULSE ? hiccupHealingMs(until - from) : HEALING_MS;
    const { healingMs = usualMs } = more;
    if (disturbs === 'all') {
      this.#addTrouble({ from, until, keys: 'all', keepsLeases: false }, healingMs);
    } else if ('key' in disturbs) {
      this.#addKey(disturbs.key, from, until + healingMs);
    } else if ('slotOf' in disturbs) {
      const { slotOf: key } = disturbs;
      this.#addTrouble({ from, until, keys: [key], keepsLeases: true }, healingMs);
    } else {
      const { serverOf: keys } = disturbs;
      this.#addTrouble({ from, until, keys, keepsLeases: false }, healingMs);
    }
  }

  #addTrouble(trouble: Trouble, healingMs: number): void {
    this.#redis.push(trouble);
    this.#untilHealed.push({ ...trouble, until: trouble.until + healingMs });
  }

  /** A replica that became master may have a lease that was given back, and then keeps the key until its end. */
  #addKnown(from: number, { unknownTo }: Extract<Fault['forgets'], { unknownTo: unknown }>): void {
    for (const [key, lease] of Object.entries(unknownTo.leases)) {
      if (lease !== null) this.#addKey(key, from, lease.until + ACCEPTANCE_MS);
    }
  }

  #addStall(process: string, from: number, until: number): void {
    if (process === MAIN_PROCESS) {
      const trouble = { from, until, keys: 'all', keepsLeases: false } as const;
      this.#addTrouble(trouble, hiccupHealingMs(until - from));
    } else {
      this.#stallsOf(process).push({ from, until });
    }
  }

  /** The same for every key that these calls had or wanted in the interval, or whose unused lease was kept there. */
  #addKeys(
    calls: readonly Call[],
    from: number,
    until: number,
    healingMs: (call: Call) => number,
  ): void {
    for (const call of calls) {
      if (call.askedAt > until || overAt(call) + call.lingerMs < from) continue;
      for (const key of call.keys) this.#addKey(key, from, until + healingMs(call));
    }
  }

  /**
   * What a process has sent to a server that does not answer may be carried out after the process has ended. It then
   * has a lease that nobody gives back.
   */
  #addLeftBehind(calls: readonly Call[], closing: Interval): void {
    for (const { from, until, keys } of this.#redis.filter((one) => overlaps(one, closing))) {
      const concerned = calls.filter((call) => concerns({ keys }, call.keys));
      this.#addKeys(concerned, from, until, ({ leaseMs }) => leaseMs + ACCEPTANCE_MS);
    }
  }

  #addKey(key: string, from: number, until: number): void {
    const intervals = this.#keys.get(key) ?? [];
    this.#keys.set(key, intervals);
    intervals.push({ from, until });
  }

  #stallsOf(process: string): Interval[] {
    const stalls = this.#stalls.get(process) ?? [];
    this.#stalls.set(process, stalls);
    return stalls;
  }
}

function concerns({ keys }: Pick<Trouble, 'keys'>, wanted: Trouble['keys']): boolean {
  if (keys === 'all' || wanted === 'all') return true;
  return wanted.some((key) => keys.includes(key));
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
