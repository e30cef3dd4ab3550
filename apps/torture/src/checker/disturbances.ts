import type { Entry, Fault } from '../history/entry.js';
import { type Call, overAt } from './call.js';
import { coveredMs, type Interval, overlaps } from './intervals.js';

/** The time to connect again, to be queued again, and for a waiter to look once more. */
const HEALING_MS = 3_500;

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

/** What was done to Redis, to keys and to processes, and which calls it may have delayed. */
export class Disturbances {
  readonly faults: readonly Fault[];
  /** The times at which Redis, or the way to it, was in trouble for everybody. */
  readonly #redis: Interval[] = [];
  /** The same times, extended by the time until everything goes on as before. */
  readonly #untilHealed: Interval[] = [];
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
      }
    }
  }

  /** Whether Redis, or the way to it, was in trouble at some time of the interval. */
  wasRedisInTrouble(interval: Interval): boolean {
    return this.#redis.some((trouble) => overlaps(trouble, interval));
  }

  /** Whether Redis was in trouble in the interval, or not everything went on as before yet. */
  wasRedisUnwell(interval: Interval): boolean {
    return this.#untilHealed.some((trouble) => overlaps(trouble, interval));
  }

  /** How long, in the interval, Redis was in trouble or the process did nothing. */
  hinderedMs(process: string, interval: Interval): number {
    return coveredMs(interval, [...this.#redis, ...this.#stallsOf(process)]);
  }

  /** How long the process did nothing in the interval. */
  stalledMs(process: string, interval: Interval): number {
    return coveredMs(interval, this.#stallsOf(process));
  }

  /** Whether something was done then, or shortly before, that delays the waiters for the key. */
  isKeyDisturbed(key: string, at: number): boolean {
    const instant = { from: at, until: at };
    if (this.wasRedisUnwell(instant)) return true;
    return this.#keys.get(key)?.some((trouble) => overlaps(trouble, instant)) ?? false;
  }

  #addFault({ name, at: from, until, disturbs, ...more }: Fault): void {
    if (disturbs === 'nothing') return;
    const usualMs = name === SLOW_PULSE ? hiccupHealingMs(until - from) : HEALING_MS;
    const { healingMs = usualMs } = more;
    if (disturbs !== 'all') return this.#addKey(disturbs.key, from, until + healingMs);
    this.#redis.push({ from, until });
    this.#untilHealed.push({ from, until: until + healingMs });
  }

  #addStall(process: string, from: number, until: number): void {
    if (process === MAIN_PROCESS) {
      this.#redis.push({ from, until });
      this.#untilHealed.push({ from, until: until + hiccupHealingMs(until - from) });
    } else {
      this.#stallsOf(process).push({ from, until });
    }
  }

  /** The same for every key that these calls had or wanted in the interval. */
  #addKeys(
    calls: readonly Call[],
    from: number,
    until: number,
    healingMs: (call: Call) => number,
  ): void {
    for (const call of calls) {
      if (call.askedAt > until || overAt(call) < from) continue;
      for (const key of call.keys) this.#addKey(key, from, until + healingMs(call));
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

function groupByProcess(calls: Iterable<Call>): Map<string, Call[]> {
  const groups = new Map<string, Call[]>();
  for (const call of calls) {
    const group = groups.get(call.process);
    if (group === undefined) groups.set(call.process, [call]);
    else group.push(call);
  }
  return groups;
}
