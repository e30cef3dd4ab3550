import type { Redis } from 'ioredis';
import { type EntryKinds, SLOW_PULSE } from './history/entry.js';
import { type HistoryFile, monotonicMs } from './history/history-file.js';
import { type Master, serverOf, type Stage } from './stages/stage.js';

const EVERY_MS = 50;
const SLOW_MS = 60;

/**
 * Asks every master whether it lives, again and again, and writes down when that took long: because of a fault, or
 * because the machine is busy.
 * @returns a function that ends it
 */
export function watchPulse(stage: Stage, history: HistoryFile<EntryKinds>): () => void {
  const asked = new Set<Redis>();
  const ask = async ({ server, admin, keys }: Master): Promise<void> => {
    if (asked.has(admin)) return; // it has not answered yet
    asked.add(admin);
    const at = monotonicMs();
    await admin.ping().catch(() => {});
    const until = monotonicMs();
    asked.delete(admin);
    if (until - at <= SLOW_MS) return;
    if (stage.wasSlow !== undefined) return stage.wasSlow(server, at, until);
    history.note('fault', { name: SLOW_PULSE, until, disturbs: serverOf(keys) }, at);
  };
  const timer = setInterval(() => {
    for (const master of stage.masters) void ask(master);
  }, EVERY_MS);
  return () => clearInterval(timer);
}
