import { monotonicMs } from '../history/monotonic-ms.js';

const EVERY_MS = 10;
/** If a beat is this late, nothing else was done in that time either. */
export const STALL_MS = 30;

/**
 * Notices when this process was paused, blocked, or not given a processor.
 * @returns a function that stops it
 */
export function watchHeartbeat(
  onStall: (since: number, until: number) => void,
  onBeat: () => void = () => {},
): () => void {
  let last = monotonicMs();
  const timer = setInterval(() => {
    const now = monotonicMs();
    if (now - last > EVERY_MS + STALL_MS) onStall(last, now);
    last = now;
    onBeat();
  }, EVERY_MS);
  return () => clearInterval(timer);
}
