import { groupBy } from '../collections.js';
import { FORCED } from '../history/entry.js';
import { leaseLengthMs } from './call.js';
import type { Facts } from './facts.js';
import type { Interval } from './intervals.js';
import type { Section } from './section.js';

/** A client of another kind does not tell when it leaves, so waiters look with growing pauses. */
const FOREIGN_PAUSE_MS = 600;
/** A key that an operator took away stays taken for this long. */
const REVOKED_MS = 1_100;
/** The timers that end a lease that is kept are jittered. */
const JITTER_MS = 50;

/**
 * The times at which each key is not available for a reason that the history shows: it is held or kept, or its holder
 * is dead.
 */
export function occupations({ sections, disturbances }: Facts): Map<string, Occupation[]> {
  const held = sections.map((section) => ({ ...section, until: freeFrom(section) }));
  const forced = disturbances.faults.flatMap(({ name, at: from, until, forgets }) =>
    name === FORCED && typeof forgets === 'object' && 'key' in forgets
      ? { key: forgets.key, from, until: until + REVOKED_MS, reads: false }
      : [],
  );
  return groupBy<Occupation, string>([...held, ...forced], ({ key }) => key);
}

interface Occupation extends Interval {
  readonly key: string;
  readonly reads: boolean;
}

/** When somebody else can have the key after this section. */
export function freeFrom({ call, from, until, reads, lease, freeAt }: Section): number {
  if (freeAt !== undefined) return freeAt;
  if (call === undefined) return until + FOREIGN_PAUSE_MS;
  const { ended, killedAt, released, lost, detached } = call;
  if (detached !== undefined) return detached.at;
  // That of readers is prolonged as those of them want it who want the longest.
  const lengthMs = Math.max(leaseLengthMs(call), reads ? lease.lengthMs : 0);
  const keptUntil = call.holdAtLeastMs === 0 ? from : from + call.holdAtLeastMs + JITTER_MS;
  if (killedAt !== undefined) return Math.max(keptUntil, killedAt + lengthMs);
  if (ended === undefined || released === undefined) return Infinity;
  if (lost?.reason === 'shutdown' || released.answer === 'unknown') {
    return Math.max(keptUntil, released.at + lengthMs);
  }
  return Math.max(keptUntil, released.at);
}
