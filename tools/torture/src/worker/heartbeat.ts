import { monotonicMs } from '../history/history-file.js';

const EVERY_MS = 10;
/** If a beat is this late, nothing else was done in that time either. */
export const STALL_MS = 30;

/**
 * Notices when this process was paused, blocked, or not given a processor, and does not keep it alive.
 * @param onBeat is told how long the event loop has turned since the last beat: a stall counts no more than a late beat
 * @returns a function that stops it
 */
export function watchHeartbeat(
  onStall: (since: number, until: number) => void,
  onBeat: (turnedMs: number) => void = () => {},
): () => void {
  let last = monotonicMs();
  const timer = setInterval(() => {
    const now = monotonicMs();
    const sinceMs = now - last;
    if (sinceMs > EVERY_MS + STALL_MS) onStall(last, now);
    last = now;
    onBeat(Math.min(sinceMs, EVERY_MS + STALL_MS));
  }, EVERY_MS).unref();
  return () => clearInterval(timer);
}
