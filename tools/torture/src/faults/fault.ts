import type { SeededRandom } from 'kit';
import type { Fault as FaultEntry } from '../history/entry.js';
import type { HistoryFile } from '../history/history-file.js';
import { monotonicMs } from '../history/monotonic-ms.js';
import type { Stage } from '../servers/stage.js';
import type { WorkerProcess } from '../worker/worker-process.js';

/** What a fault may act on. */
export interface Scene {
  readonly random: SeededRandom;
  readonly history: HistoryFile;
  readonly stage: Stage;
  /** The workers that are running now. */
  readonly workers: () => WorkerProcess[];
  /** Puts another worker in the place of one that was killed. */
  readonly replace: (worker: WorkerProcess) => Promise<void>;
}

/** Does something bad, and ends when everything is put right again. */
export type Fault = (scene: Scene) => Promise<void>;

/** What a fault does, apart from when. */
export type Effects = Omit<FaultEntry, 'kind' | 'at' | 'until' | 'name'>;

/**
 * Writes down what a fault did, from before its beginning until after its end.
 * @param action is given a function, which it calls when nothing more will be forgotten from then on
 */
export async function noted(
  { history }: Scene,
  name: string,
  effects: Effects,
  action: (nothingMoreIsForgotten: () => void) => Promise<unknown>,
): Promise<void> {
  const at = monotonicMs();
  let marked: { forgetsUntil?: number } = {};
  try {
    await action(() => (marked = { forgetsUntil: monotonicMs() }));
  } finally {
    history.append({ kind: 'fault', name, at, until: monotonicMs(), ...effects, ...marked });
  }
}
