import { setTimeout as sleep } from 'node:timers/promises';
import type { WorkerProcess } from '../worker/worker-process.js';
import type { Fault, Scene } from './fault.js';
import { standStill } from './standstill.js';

/** What can happen to processes. They write down themselves how long they stood still. */
export const WORKER_FAULTS = {
  'worker killed': async (scene) => {
    const victim = someWorker(scene);
    await victim?.kill();
    if (victim !== undefined) await scene.replace(victim); // unless that has been done already
  },
  'worker paused': async (scene) => {
    const { random } = scene;
    const victim = someWorker(scene);
    const goOn = victim && standStill(victim);
    await sleep(random.chance(0.5) ? random.between(50, 400) : random.between(400, 2_500));
    goOn?.();
  },
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
} satisfies Record<string, Fault>;

/** Undefined if all of them have ended, and their successors cannot start because a server is away. */
export function someWorker({ random, workers }: Scene): WorkerProcess | undefined {
  const running = workers();
  return running.length === 0 ? undefined : random.pick(running);
}
