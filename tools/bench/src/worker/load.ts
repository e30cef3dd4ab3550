import { setTimeout as sleep } from 'node:timers/promises';
import type { OpenLocks } from '../adapters/adapter.js';
import { HoldLog, type Holds } from '../measure/hold-log.js';
import { monotonicNs } from '../measure/statistics.js';

/** Callers of one process that take a lock again and again, as soon as they have given it back. */
export interface Load {
  /** The keys of each caller, which it takes in turn. */
  readonly keys: readonly (readonly string[])[];
  /** When all processes begin, on the clock they share. */
  readonly startAt: number;
  readonly ms: number;
  /** How long the work inside takes. With 0 it is a single turn of the microtask queue. */
  readonly workMs: number;
  /** Which of the forms of the adapter is used, if not the usual one. */
  readonly form?: string | undefined;
  /** How many may be inside at once. */
  readonly limit: number;
}

export interface LoadResult {
  /** How many holds each caller has completed in time. */
  readonly holds: readonly number[];
  /** From asking to being inside, in nanoseconds: of every hold, also of those that began in time and ended later. */
  readonly waitsNs: Float64Array;
  readonly log: Holds;
  /** User and system time of this process, for all holds of the log. */
  readonly cpuMs: number;
  /** How often a caller found as many others of this process inside as may be there. */
  readonly intrusions: number;
}

export async function runLoad(
  locks: OpenLocks,
  { keys, startAt, ms, workMs, form, limit }: Load,
): Promise<LoadResult> {
  const hold = form === undefined ? locks.hold : locks.forms?.[form];
  if (hold === undefined) throw new Error(`These locks have no form '${form}'`);
  const log = new HoldLog();
  const holds = keys.map(() => 0);
  const inside = new Map<string, number>();
  let intrusions = 0;
  await sleep(Math.max(0, startAt - monotonicNs()) / 1e6);
  const endAt = Math.max(startAt, monotonicNs()) + ms * 1e6;

  const caller = async (mine: readonly string[], n: number): Promise<void> => {
    let asked = monotonicNs();
    // One at least: on a busy machine, a short time is over before it begins.
    for (let turn = 0; turn === 0 || asked < endAt; turn += 1) {
      const key = mine[turn % mine.length] ?? '';
      await hold(key, async () => {
        const from = monotonicNs();
        const before = inside.get(key) ?? 0;
        if (before >= limit) intrusions += 1;
        inside.set(key, before + 1);
        // Even work that takes no time awaits once: a second holder would be seen.
        await (workMs === 0 ? undefined : sleep(workMs));
        inside.set(key, (inside.get(key) ?? 0) - 1);
        log.add(from - asked, from, monotonicNs());
      });
      asked = monotonicNs();
      if (asked <= endAt) holds[n] = (holds[n] ?? 0) + 1;
    }
  };

  const cpu = process.cpuUsage();
  await Promise.all(keys.map(caller));
  const { user, system } = process.cpuUsage(cpu);
  return {
    holds,
    waitsNs: log.waitsNs,
    log: log.holds,
    cpuMs: (user + system) / 1_000,
    intrusions,
  };
}
