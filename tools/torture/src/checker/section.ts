import type { Foreign } from '../history/entry.js';
import { believedUntil, type Call, isSeveral, leaseLengthMs } from './call.js';

/**
 * A lease that one service got from Redis, as far as its holds show it: passed from call to call until it was released.
 */
export interface Lease {
  /** It may have been granted as early as this. */
  from: number;
  /** How long the store may keep the lease after it was last prolonged. */
  lengthMs: number;
}

/** One key of one call, from the moment at which the call was told that it holds the key. */
export interface Section {
  /** Undefined for a client of another kind. */
  readonly call: Call | undefined;
  /** What messages about violations call it. */
  readonly id: string;
  readonly key: string;
  /** Undefined for a client of another kind. */
  readonly token: number | undefined;
  /** Sections with one token in one service share a hold. */
  readonly hold: string;
  readonly process: string;
  readonly from: number;
  /** Until when its process could believe that it held the key. */
  readonly until: number;
  /** Nobody learns anything about a lease that is not renewed before it ends. */
  isRenewed: boolean;
  lease: Lease;
}

export function sectionsOf(calls: Iterable<Call>, foreign: readonly Foreign[]): Section[] {
  const sections = [...foreign.map(foreignSection), ...[...calls].flatMap(sectionsOfCall)];
  sections.sort((a, b) => a.from - b.from);
  traceLeases(sections);
  return sections;
}

function foreignSection(entry: Foreign): Section {
  return {
    call: undefined,
    id: entry.call,
    key: entry.key,
    token: undefined,
    hold: entry.call,
    process: 'foreign',
    from: entry.at,
    until: entry.until,
    isRenewed: false,
    lease: { from: entry.at, lengthMs: entry.leaseMs },
  };
}

function sectionsOfCall(call: Call): Section[] {
  const { held } = call;
  if (held === undefined) return [];
  return Object.entries(held.tokens).map(([key, token]) => ({
    call,
    id: call.id,
    key,
    token,
    hold: `${call.service} ${key} ${token}`,
    process: call.process,
    from: held.at,
    until: believedUntil(call),
    isRenewed: call.renew,
    // Of several keys, the first may have been held for long when the last one was granted.
    lease: { from: isSeveral(call) ? call.askedAt : held.at, lengthMs: leaseLengthMs(call) },
  }));
}

/** Within a service, the next number means that the same lease was passed on to the next call. */
function traceLeases(sections: readonly Section[]): void {
  const lastOf = new Map<string, Section>();
  for (const section of sections) {
    if (section.call === undefined || section.token === undefined) continue;
    const place = `${section.call.service} ${section.key}`;
    const last = lastOf.get(place);
    const distance = section.token - (last?.token ?? -Infinity);
    if (last !== undefined && (distance === 0 || distance === 1)) {
      last.lease.from = Math.min(last.lease.from, section.lease.from);
      last.lease.lengthMs = Math.max(last.lease.lengthMs, section.lease.lengthMs);
      section.lease = last.lease;
      if (distance === 0) section.isRenewed = last.isRenewed; // it joined the hold unchanged
    }
    lastOf.set(place, section);
  }
}
