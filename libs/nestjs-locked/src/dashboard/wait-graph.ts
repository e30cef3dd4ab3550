import type { ShownWait } from './dashboard-messages.js';
import type { LockWait } from './lock-waits.js';
import { shownHolder } from './shown-lock.js';

/** How long a call has waited before it is shown: nearly all waits are over sooner. */
const SHOWN_AFTER_MS = 500;

const MOST_SHOWN = 100;

/** Who waits for whom, the longest wait first: the calls that wait, each with those of them that hold what it wants. */
export function waitGraph(waits: readonly LockWait[]): ShownWait[] {
  const shown = waits
    .filter(({ sinceMs }) => sinceMs >= SHOWN_AFTER_MS)
    .sort((a, b) => b.sinceMs - a.sinceMs)
    .slice(0, MOST_SHOWN);
  const holders = new Map<string, number[]>();
  shown.forEach(({ holds }, i) => {
    for (const key of holds) holders.set(key, [...(holders.get(key) ?? []), i]);
  });
  const heldBy = shown.map(({ key }) => holders.get(key) ?? []);
  return shown.map((wait, i) => ({
    call: shownHolder(wait),
    key: wait.key,
    holds: wait.holds,
    waitedMs: wait.sinceMs,
    heldBy: heldBy[i] as number[],
    isInRing: reaches(heldBy, i),
  }));
}

/** Whether a call waits for itself, through others. */
function reaches(heldBy: readonly (readonly number[])[], start: number): boolean {
  const reached = new Set(heldBy[start]);
  for (const i of reached) for (const next of heldBy[i] as number[]) reached.add(next);
  return reached.has(start);
}
