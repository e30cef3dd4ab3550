import type { SeededRandom } from 'kit';
import type { HistoryFile } from '../history/history-file.js';
import { ClusterStage } from './cluster-stage.js';
import { ReplicatedStage } from './replicated-stage.js';
import { SentinelStage } from './sentinel-stage.js';
import { SingleStage } from './single-stage.js';
import { type Stage, type StageKind, STAGES } from './stage.js';
import { faketime, SteppedClockStage } from './stepped-clock-stage.js';

/** @param asked if undefined, the seed chooses @param folder is where the servers keep their data */
export async function startStage(
  asked: StageKind | undefined,
  random: SeededRandom,
  folder: string,
  history: HistoryFile,
): Promise<Stage> {
  const kind = asked ?? random.pick(STAGES);
  switch (kind) {
    case 'single':
      return SingleStage.start(folder);
    case 'replicated':
      return ReplicatedStage.start();
    case 'stepped-clock':
      if (faketime !== undefined) return SteppedClockStage.start(folder);
      console.log('skipped: clock steps, because there is no libfaketime; stage single instead');
      return SingleStage.start(folder);
    case 'sentinel':
      return SentinelStage.start(history);
    case 'cluster':
      return ClusterStage.start(random, history);
  }
}
