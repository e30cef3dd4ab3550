import { setTimeout as sleep } from 'node:timers/promises';
import type { SteppedClockStage } from '../servers/stepped-clock-stage.js';
import { type Fault, noted } from './fault.js';

/** The longest lease may appear to last this much longer. */
const BACK_MS = 3_000;

/** Sets Redis' wall clock. A step forward ends leases early; a step back makes them last longer. */
export const CLOCK_STEPS = {
  'clock stepped forward': (scene) =>
    noted(
      scene,
      'clock stepped forward',
      { disturbs: 'all', forgets: 'all', notice: 'renewal' },
      () => step(scene, scene.random.between(1, 60)),
    ),
  'clock stepped back': (scene) =>
    noted(scene, 'clock stepped back', { disturbs: 'all', healingMs: BACK_MS + 3_500 }, () =>
      step(scene, -scene.random.between(1, BACK_MS / 1_000)),
    ),
} satisfies Record<string, Fault>;

let offset = 0;

async function step({ stage }: Parameters<Fault>[0], seconds: number): Promise<void> {
  offset += seconds;
  await (stage as SteppedClockStage).setClock(offset);
  await sleep(20);
}
