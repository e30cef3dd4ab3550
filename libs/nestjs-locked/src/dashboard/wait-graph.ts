import { waitsInRings } from '../core/deadlocks/rings.js';
import type { LockWait } from '../core/lock-info.js';
import { systemClock } from '../core/time/clock.js';
import type { ShownWait } from './dashboard-messages.js';
import { shownHolder } from './shown-lock.js';

/** How long a call has waited before it is shown: nearly all waits are over sooner. */
const SHOWN_AFTER_MS = 500;

const MOST_SHOWN = 100;

/** Who waits for whom, the longest wait first: the calls that wait, each with those of them that hold what it wants. */
export function waitGraph(waits: readonly LockWait[]): ShownWait[] {
  const now = systemClock.wallNow();
  const shown = waits
    .map((wait) => ({ ...wait, waitedMs: now - wait.since.getTime() }))
    .filter(({ waitedMs }) => waitedMs >= SHOWN_AFTER_MS)
    .sort((a, b) => b.waitedMs - a.waitedMs)
    .slice(0, MOST_SHOWN);
  const holders = new Map<string, number[]>();
  shown.forEach(({ holds }, i) => {
    for (const key of holds) holders.set(key, [...(holders.get(key) ?? []), i]);
  });
  const heldBy = shown.map(({ key }) => holders.get(key) ?? []);
  const inRings = waitsInRings(shown);
  return shown.map((wait, i) => ({
    call: shownHolder(wait),
    key: wait.key,
    holds: wait.holds,
    waitedMs: wait.waitedMs,
    heldBy: heldBy[i] as number[],
    isInRing: inRings.has(wait),
  }));
}
