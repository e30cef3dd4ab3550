import { setTimeout as sleep } from 'node:timers/promises';
import { type Fault, noted } from './fault.js';
import { someWorker } from './worker-faults.js';

/** Time for an order to be read. */
const ORDER_MS = 100;

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
    const { random } = scene;
    const victim = someWorker(scene);
    if (victim === undefined) return;
    const ms = random.between(400, 4_000);
    victim.tell({ do: 'expect to be suspended', ms: ms - ORDER_MS });
    await sleep(ORDER_MS);
    const forgets = { process: victim.name };
    await noted(
      scene,
      'machine suspended',
      { disturbs: 'nothing', forgets, notice: 'waking' },
      async () => {
        victim.pause();
        await sleep(ms);
        victim.resume();
      },
    );
  },
} satisfies Record<string, Fault>;
