import { SeededRandom } from 'kit';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Fault, Scene } from './faults/fault.js';
import { faultsOf } from './faults/faults.js';
import { monotonicMs } from './history/monotonic-ms.js';
import { hyphenated } from './options.js';

/**
 * Calm first, then faults, then calm again. The rules for times when nothing is wrong are strict, so there must be such
 * times.
 */
const CYCLE_MS = 13_000;
const CALM_MS = 3_000;
const FAULTS_UNTIL_MS = 8_000;

/** The average time until the next fault of each stream. */
const PAUSES_MS = [900, 1_200, 1_200];

const REFUSED =
  /OOM|READONLY|LOADING|MOVED|ASK |TRYAGAIN|CLUSTERDOWN|NOGOODSLAVE|Connection is closed|Stream isn't writeable|max retries/;

/** @returns how often each fault happened */
export async function runFaults(
  scene: Scene,
  endAt: number,
  chosen: ReadonlySet<string>,
): Promise<Record<string, number>> {
  const counts: Record<string, number> = {};
  const startedAt = monotonicMs();
  const stream = async (faults: readonly [string, Fault][], pauseMs: number, seed: number) => {
    const random = new SeededRandom(seed);
    while (faults.length > 0) {
      await sleep(random.between(50, pauseMs * 2));
      const phase = (monotonicMs() - startedAt) % CYCLE_MS;
      if (phase < CALM_MS) await sleep(CALM_MS - phase);
      else if (phase > FAULTS_UNTIL_MS) await sleep(CYCLE_MS - phase + CALM_MS);
      if (monotonicMs() > endAt - CALM_MS) return;
      const [name, fault] = random.pick(faults);
      counts[name] = (counts[name] ?? 0) + 1;
      // A server that is out of memory, has gone, or has become a replica in the meantime, also refuses what we do.
      await fault({ ...scene, random }).catch((error: unknown) => {
        counts[`${name}, refused`] = (counts[`${name}, refused`] ?? 0) + 1;
        if (!REFUSED.test(String(error))) throw error;
      });
    }
  };
  await Promise.all([
    ...faultsOf(scene.stage.kind).map((faults, i) =>
      stream(
        Object.entries(faults).filter(([name]) => chosen.has(hyphenated(name))),
        PAUSES_MS[i] as number,
        scene.random.between(0, 2 ** 31),
      ),
    ),
    sleep(Math.max(0, endAt - monotonicMs())),
  ]);
  return counts;
}
