import type { AcquiredVia } from '../events/lock-messages.js';
import type { ReentryLevel } from './reentry-level.js';

const SLOWEST_FIRST: readonly AcquiredVia[] = ['handed-over', 'local', 'free'];

/** How a call got its lock, of all its keys the one that took longest. */
export function acquiredVia(levels: readonly ReentryLevel[]): AcquiredVia {
  const own = new Set(levels.filter(({ isRoot }) => isRoot).map(({ hold }) => hold.via));
  return SLOWEST_FIRST.find((via) => own.has(via)) ?? 'joined';
}
