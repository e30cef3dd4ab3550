import { type Faults, noted } from '../faults/fault.js';
import { SingleStage } from './single.js';

/** The longest lease may appear to last this much longer. */
const BACK_MS = 3_000;

/** One server whose wall clock can be set while it runs. */
export class SteppedClockStage extends SingleStage {
  /** @throws Error if there is no libfaketime */
  static override async start(folder: string): Promise<SteppedClockStage> {
    return (await super.start(folder, { hasOwnClock: true })) as SteppedClockStage;
  }

  /** Sets the server's clock. */
  async step(seconds: number): Promise<void> {
    await this.server.stepClock(seconds);
  }
}

/** Sets Redis' wall clock. A step forward ends leases early; a step back makes them last longer. */
export const CLOCK_STEPS: Faults<SteppedClockStage> = {
  'clock stepped forward': (scene) =>
    noted(scene, { disturbs: 'all', forgets: 'all', notice: 'renewal' }, () =>
      scene.stage.step(scene.random.between(1, 60)),
    ),
  'clock stepped back': (scene) =>
    noted(scene, { disturbs: 'all', healingMs: BACK_MS + 3_500 }, () =>
      scene.stage.step(-scene.random.between(1, BACK_MS / 1_000)),
    ),
};
