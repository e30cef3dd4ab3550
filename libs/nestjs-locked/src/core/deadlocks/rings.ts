import type { LockWait } from '../lock-info.js';

/**
 * The waits that lead back to themselves, as seen in one look: each waits for a key that one of the others holds.
 * Unlike the search for deadlocks, this asks nobody twice, so what has just ended may still be among them.
 */
export function waitsInRings(waits: readonly LockWait[]): ReadonlySet<LockWait> {
  const next = (wait: LockWait): LockWait[] =>
    waits.filter(({ holds }) => holds.includes(wait.key));
  const leadsBack = (wait: LockWait): boolean => {
    const seen = new Set<LockWait>();
    const open = next(wait);
    for (let at = open.pop(); at !== undefined; at = open.pop()) {
      if (at === wait) return true;
      if (seen.has(at)) continue;
      seen.add(at);
      open.push(...next(at));
    }
    return false;
  };
  return new Set(waits.filter(leadsBack));
}
