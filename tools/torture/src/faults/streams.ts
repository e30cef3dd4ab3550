import { SeededRandom } from 'kit';
import { setTimeout as sleep } from 'node:timers/promises';
import { countBy } from '../collections.js';
import { monotonicMs } from '../history/history-file.js';
import type { Fault, Setting } from './fault.js';

/** Faults that come one after the other. */
export interface FaultStream<In> {
  readonly faults: Readonly<Record<string, Fault<In>>>;
  /** The shortest and the longest pause before a fault. */
  readonly pauseMs: readonly [number, number];
  /** How much longer there must be no faults at this time. */
  readonly calmMs?: (at: number) => number;
}

/** A server that is out of memory, has gone, or has become a replica in the meantime, also refuses what we ask. */
const REFUSED =
  /OOM|READONLY|LOADING|MOVED|ASK |TRYAGAIN|CLUSTERDOWN|NOGOODSLAVE|Connection is closed|Stream isn't writeable|max retries/;

export interface Schedule {
  readonly endAt: number;
  /** No fault begins after this. @default endAt */
  readonly lastAt?: number;
}

/** Lets faults happen, those of several streams also at the same time. @returns how often each fault happened */
export async function runFaults<In extends Setting>(
  setting: Omit<In, 'name'>,
  streams: readonly FaultStream<In>[],
  { endAt, lastAt = endAt }: Schedule,
): Promise<Record<string, number>> {
  const happened: string[] = [];
  const run = async (
    { faults, pauseMs, calmMs = () => 0 }: FaultStream<In>,
    seed: number,
  ): Promise<void> => {
    const random = new SeededRandom(seed);
    const all = Object.entries(faults);
    while (all.length > 0) {
      await sleep(random.between(...pauseMs));
      await sleep(calmMs(monotonicMs()));
      if (monotonicMs() > lastAt) return;
      const [name, fault] = random.pick(all);
      happened.push(name);
      await fault({ ...setting, random, name } as unknown as In).catch((error: unknown) => {
        happened.push(`${name}, refused`);
        if (!REFUSED.test(String(error))) throw error;
      });
    }
  };
  const seeds = streams.map(() => setting.random.between(0, 2 ** 31));
  await Promise.all([
    ...streams.map((stream, n) => run(stream, seeds[n] as number)),
    sleep(Math.max(0, endAt - monotonicMs())),
  ]);
  return countBy(happened, (name) => name);
}
