import type { Adapter } from '../adapters/adapter.js';
import type { LoadResult } from '../worker/load.js';
import { WorkerProcess } from '../worker/worker-process.js';
import { overlapsIn } from './exclusion.js';
import { type HandOvers, handOversIn, spanOf } from './hand-overs.js';
import { jainFairness, monotonicNs, percentile } from './statistics.js';

/** How long before its beginning a round is announced, so that every process has heard of it. */
const NOTICE_MS = 25;

const WARM_UP_CALLERS = 32;

/** In the place of an adapter, those that pass messages without any lock. */
const MESSENGERS = 'messages';

export interface RoundOptions {
  readonly ms: number;
  readonly workMs?: number;
  readonly form?: string;
  /** How many may be inside at once. Default: 1. */
  readonly limit?: number;
}

/** What one round of one adapter came to. */
export interface Round {
  readonly perSecond: number;
  readonly p50WaitMs: number;
  readonly p99WaitMs: number;
  /** Jain's index over the holds of all callers. */
  readonly fairness: number;
  /** User and system time of the clients, for each hold. */
  readonly cpuUs: number;
  /** How long the work inside took on average. */
  readonly workMs: number;
  /** All holds, also those that ended after the round. */
  readonly holds: number;
}

/** The processes in which locks are measured. Each has one adapter, and stays until the end. */
export class Fleet {
  readonly #workers = new Map<string, Promise<WorkerProcess>[]>();
  readonly #url: string;
  readonly #warmUpMs: number;
  #started = 0;
  /** Whatever was found of too many being inside at the same time. */
  readonly violations: string[] = [];

  /** @param warmUpMs how long a new process takes locks before it is measured, so that its code is compiled */
  constructor(url: string, warmUpMs: number) {
    this.#url = url;
    this.#warmUpMs = warmUpMs;
  }

  /** So many processes with the locks of this adapter open. */
  processes(adapter: Adapter, count: number): Promise<WorkerProcess[]> {
    const workers = this.#workers.get(adapter.id) ?? [];
    this.#workers.set(adapter.id, workers);
    while (workers.length < count) workers.push(this.#start(adapter));
    return Promise.all(workers.slice(0, count));
  }

  /** One process, whose callers never meet: each has keys of its own. */
  async apart(
    adapter: Adapter,
    keys: readonly (readonly string[])[],
    options: RoundOptions,
  ): Promise<Round> {
    const results = await this.#load(adapter, 1, keys, options);
    return this.#roundOf(adapter, results, options);
  }

  /** All callers of all processes want the same key. */
  async together(
    adapter: Adapter,
    key: string,
    options: RoundOptions & { readonly processes: number; readonly callers: number },
  ): Promise<Round & HandOvers> {
    const keys = Array.from({ length: options.callers }, () => [key]);
    const results = await this.#load(adapter, options.processes, keys, options);
    const logs = results.map(({ log }) => log);
    const { count, longestMs } = overlapsIn(logs, options.limit);
    if (count > 0) {
      this.violations.push(
        `${adapter.name}: ${count} times too many were inside, for up to ${longestMs.toFixed(3)} ms`,
      );
    }
    return { ...this.#roundOf(adapter, results, options), ...handOversIn(logs) };
  }

  /** How long bare messages take from one process to another. */
  async messages(options: {
    readonly count: number;
    readonly everyMs: number;
  }): Promise<HandOvers> {
    const [listener, publisher] = (await Promise.all(this.#messengers())) as [
      WorkerProcess,
      WorkerProcess,
    ];
    await publisher.do('publish', options);
    return spanOf(await listener.do('heard'));
  }

  #messengers(): Promise<WorkerProcess>[] {
    const known = this.#workers.get(MESSENGERS);
    if (known !== undefined) return known;
    const started = (['listen', 'openPublisher'] as const).map(async (task) => {
      const worker = WorkerProcess.start();
      await worker.do(task, { url: this.#url });
      return worker;
    });
    this.#workers.set(MESSENGERS, started);
    return started;
  }

  async end(): Promise<void> {
    const workers = await Promise.all([...this.#workers.values()].flat());
    await Promise.all(workers.map((worker) => worker.end()));
  }

  async #start(adapter: Adapter): Promise<WorkerProcess> {
    const worker = WorkerProcess.start();
    await worker.do('open', { adapter: adapter.id, url: this.#url });
    const number = (this.#started += 1);
    await worker.do('load', {
      keys: Array.from({ length: WARM_UP_CALLERS }, (_, n) => [`warm-up:${number}:${n}`]),
      startAt: monotonicNs(),
      ms: this.#warmUpMs,
      workMs: 0,
      limit: 1,
    });
    return worker;
  }

  async #load(
    adapter: Adapter,
    processes: number,
    keys: readonly (readonly string[])[],
    { ms, workMs = 0, form, limit = 1 }: RoundOptions,
  ): Promise<LoadResult[]> {
    const workers = await this.processes(adapter, processes);
    const startAt = monotonicNs() + NOTICE_MS * 1e6;
    return Promise.all(
      workers.map((worker) => worker.do('load', { keys, startAt, ms, workMs, form, limit })),
    );
  }

  #roundOf(adapter: Adapter, results: readonly LoadResult[], { ms }: RoundOptions): Round {
    const intrusions = sum(results.map((result) => result.intrusions));
    if (intrusions > 0) {
      this.violations.push(
        `${adapter.name}: ${intrusions} times too many of one process were inside`,
      );
    }
    const shares = results.flatMap(({ holds }) => holds);
    const waits = merged(results.map(({ waitsNs }) => waitsNs)).sort();
    const inside = results.flatMap(({ log }) =>
      Array.from(log.from, (from, n) => (log.until[n] ?? from) - from),
    );
    return {
      perSecond: (sum(shares) / ms) * 1_000,
      p50WaitMs: percentile(waits, 50) / 1e6,
      p99WaitMs: percentile(waits, 99) / 1e6,
      fairness: jainFairness(shares),
      cpuUs: (sum(results.map(({ cpuMs }) => cpuMs)) / waits.length) * 1_000,
      workMs: sum(inside) / inside.length / 1e6,
      holds: waits.length,
    };
  }
}

function sum(values: readonly number[]): number {
  return values.reduce((total, value) => total + value, 0);
}

function merged(parts: readonly Float64Array[]): Float64Array {
  const all = new Float64Array(sum(parts.map(({ length }) => length)));
  let at = 0;
  for (const part of parts) {
    all.set(part, at);
    at += part.length;
  }
  return all;
}
