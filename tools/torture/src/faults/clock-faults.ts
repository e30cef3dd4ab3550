import { setTimeout as sleep } from 'node:timers/promises';
import { LONE_KEYS } from '../keys.js';
import { LONG_LEASE_MS } from '../worker/repertoire.js';
import type { WorkerProcess } from '../worker/worker-process.js';
import { type Fault, noted, type Scene } from './fault.js';
import { standStill } from './standstill.js';
import { someWorker } from './worker-faults.js';

/** Time for an order to be read. */
const ORDER_MS = 100;
/** How long the one who gets the key holds it: longer than the other one may take to notice. */
const RIVAL_MS = 3_000;

/** What can happen to the clocks of a process. */
export const CLOCK_FAULTS = {
  /** Leases are measured on the monotonic clock, so this excuses nothing. */
  'clock of a worker stepped': async (scene) => {
    const { random } = scene;
    const ms = random.pick([-1, 1]) * random.pick([random.between(1, 900), 5_000, 60_000]);
    await noted(scene, 'clock of a worker stepped', { disturbs: 'nothing' }, async () =>
      someWorker(scene)?.tell({ do: 'step the wall clock', ms }),
    );
    await sleep(ORDER_MS);
  },
  /** The machine was suspended: the wall clock goes on, the monotonic clock and the timers do not. */
  'machine suspended': async (scene) => {
    const victim = someWorker(scene);
    if (victim !== undefined) await suspend(scene, victim, scene.random.between(400, 4_000));
  },
  /** Longer than its lease, while somebody waits for the key and gets it. */
  'machine suspended for long': async (scene) => {
    const { random, workers } = scene;
    const victim = someWorker(scene);
    const rival = workers().find((worker) => worker !== victim);
    if (victim === undefined || rival === undefined) return;
    const key = random.pick(LONE_KEYS);
    victim.tell({ do: 'hold', key, ms: LONG_LEASE_MS + RIVAL_MS, leaseMs: LONG_LEASE_MS });
    await sleep(ORDER_MS);
    rival.tell({ do: 'hold', key, ms: RIVAL_MS, leaseMs: LONG_LEASE_MS });
    await suspend(scene, victim, LONG_LEASE_MS + random.between(200, 800));
    await sleep(RIVAL_MS);
  },
} satisfies Record<string, Fault>;

async function suspend(scene: Scene, victim: WorkerProcess, ms: number): Promise<void> {
  victim.tell({ do: 'expect to be suspended', ms: ms - ORDER_MS });
  await sleep(ORDER_MS);
  const forgets = { process: victim.name };
  const effects = { disturbs: 'nothing', forgets, notice: 'waking' } as const;
  await noted(scene, 'machine suspended', effects, async () => {
    const goOn = standStill(victim);
    await sleep(ms);
    goOn();
  });
}
