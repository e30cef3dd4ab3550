import { setTimeout as sleep } from 'node:timers/promises';
import type { Fault } from './fault.js';

/** What can happen to processes. They write down themselves how long they stood still. */
export const WORKER_FAULTS = {
  'worker killed': async ({ random, workers, replace }) => {
    const victim = random.pick(workers());
    await victim.kill();
    await replace(victim); // unless that has been done already
  },
  'worker paused': async ({ random, workers }) => {
    const victim = random.pick(workers());
    victim.pause();
    await sleep(random.chance(0.5) ? random.between(50, 400) : random.between(400, 2_500));
    victim.resume();
  },
  'application closed': async ({ random, workers }) => {
    random.pick(workers()).tell({ do: 'restart the application' });
    await sleep(500); // do not take the same worker again at once
  },
} satisfies Record<string, Fault>;
