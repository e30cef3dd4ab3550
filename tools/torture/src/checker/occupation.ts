import { type Call, leaseLengthMs, settledAt } from './call.js';
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
 * The times at which a key is not available for a reason that the history shows: it is held or kept, or its holder is
 * dead.
 */
export function occupations({ sections, disturbances }: Facts): Map<string, Interval[]> {
  const occupied = new Map<string, Interval[]>();
  const add = (key: string, from: number, until: number): void => {
    const intervals = occupied.get(key) ?? [];
    occupied.set(key, intervals);
    intervals.push({ from, until });
  };
  for (const section of sections) add(section.key, section.from, freeFrom(section));
  for (const { name, at, until, forgets } of disturbances.faults) {
    if (name === FORCED && typeof forgets === 'object' && 'key' in forgets) {
      add(forgets.key, at, until + REVOKED_MS);
    }
  }
  return occupied;
}

/** The name of the fault after which a key stays taken for a moment. */
export const FORCED = 'released by an operator';

/** When somebody else can have the key after this section. */
export function freeFrom({ call, from, until }: Section): number {
  if (call === undefined) return until + FOREIGN_PAUSE_MS;
  const { endedAt, killedAt, released, lost } = call;
  const lengthMs = leaseLengthMs(call);
  const keptUntil = call.holdAtLeastMs === 0 ? from : from + call.holdAtLeastMs + JITTER_MS;
  if (killedAt !== undefined) return Math.max(keptUntil, killedAt + lengthMs);
  if (endedAt === undefined || released === undefined) return Infinity;
  if (lost?.reason === 'shutdown' || released.answer === 'unknown') {
    return Math.max(keptUntil, released.at + lengthMs);
  }
  return Math.max(keptUntil, released.at);
}

export function isWaitingAt(call: Call, at: number): boolean {
  return call.askedAt <= at && at < (settledAt(call) ?? call.killedAt ?? Infinity);
}
