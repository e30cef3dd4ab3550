import { setTimeout as sleep } from 'node:timers/promises';
import { LONE_KEYS } from '../keys.js';
import { LONG_LEASE_MS } from '../worker/repertoire.js';
import type { WorkerProcess } from '../worker/worker-process.js';
import { type Faults, noted, pauseFor, type Scene, type Setting, someWorker } from './fault.js';

/** Time for an order to be read. */
const ORDER_MS = 100;
/** How long the one who gets the key holds it: longer than the other one may take to notice. */
const RIVAL_MS = 3_000;

/** What can happen to processes. They write down themselves how long they stood still. */
const PROCESS_FAULTS: Faults = {
  'worker killed': killWorker,
  'worker paused': (scene) =>
    scene.random.chance(0.5) ? pauseWorker(scene, 50, 400) : pauseWorker(scene, 400, 2_500),
  /** Shorter or longer than the pause between two renewals, and longer than the lease. */
  'worker blocked': async (scene) => {
    const ms = scene.random.pick([300, 450, 700, 1_200, 3_000]);
    someWorker(scene)?.tell({ do: 'block', ms });
    await sleep(ms);
  },
  'application closed': async (scene) => {
    someWorker(scene)?.tell({ do: 'restart the application' });
    await sleep(500); // do not take the same worker again at once
  },
};

export async function killWorker(setting: Setting): Promise<void> {
  const victim = someWorker(setting);
  await victim?.kill();
  if (victim !== undefined) await setting.crew.replace(victim); // unless that has been done already
}

export async function pauseWorker(setting: Setting, leastMs: number, mostMs: number) {
  const victim = someWorker(setting);
  if (victim !== undefined) await pauseFor(victim, setting.random.between(leastMs, mostMs));
}

/** What can happen to the clocks of a process. */
const CLOCK_FAULTS: Faults = {
  /** Leases are measured on the monotonic clock, so this excuses nothing. */
  'clock of a worker stepped': async (scene) => {
    const { random } = scene;
    const ms = random.pick([-1, 1]) * random.pick([random.between(1, 900), 5_000, 60_000]);
    await noted(scene, { disturbs: 'nothing' }, () =>
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
    const { random, crew } = scene;
    const victim = someWorker(scene);
    const rival = crew.workers.find((worker) => worker !== victim);
    if (victim === undefined || rival === undefined) return;
    const held = { do: 'hold', key: random.pick(LONE_KEYS), leaseMs: LONG_LEASE_MS } as const;
    victim.tell({ ...held, ms: LONG_LEASE_MS + RIVAL_MS });
    await sleep(ORDER_MS);
    rival.tell({ ...held, ms: RIVAL_MS });
    await suspend(scene, victim, LONG_LEASE_MS + random.between(200, 800));
    await sleep(RIVAL_MS);
  },
};

async function suspend(scene: Scene, victim: WorkerProcess, ms: number): Promise<void> {
  victim.tell({ do: 'expect to be suspended', ms: ms - ORDER_MS });
  await sleep(ORDER_MS);
  const effects = {
    disturbs: 'nothing',
    forgets: { process: victim.name },
    notice: 'waking',
  } as const;
  await noted(scene, effects, () => pauseFor(victim, ms));
}

export const WORKER_FAULTS: Faults = { ...PROCESS_FAULTS, ...CLOCK_FAULTS };
