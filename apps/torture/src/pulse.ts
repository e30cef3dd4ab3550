import { setTimeout as sleep } from 'node:timers/promises';
import { SLOW_PULSE } from './checker/disturbances.js';
import type { HistoryFile } from './history/history-file.js';
import { monotonicMs } from './history/monotonic-ms.js';
import type { Stage } from './servers/stage.js';

const EVERY_MS = 50;
const SLOW_MS = 60;

/**
 * Asks Redis whether it lives, again and again, and writes down when that took long: because of a fault, or because
 * the machine is busy.
 * @returns a function that ends it
 */
export function watchPulse(stage: Stage, history: HistoryFile): () => void {
  let isRunning = true;
  const beat = async (): Promise<void> => {
    while (isRunning) {
      const at = monotonicMs();
      await stage.admin.ping().catch(() => {});
      const until = monotonicMs();
      if (until - at > SLOW_MS) {
        history.append({ kind: 'fault', name: SLOW_PULSE, at, until, disturbs: 'all' });
      }
      await sleep(EVERY_MS);
    }
  };
  void beat();
  return () => void (isRunning = false);
}
