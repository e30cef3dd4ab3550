import type { Entry } from '../history/entry.js';
import { around, believedUntil, type Call, isSeveral, leaseLengthMs, readsKey } from './call.js';

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
  /** Sections with one token in one service share a hold, unless they read: then only those of one outermost call. */
  readonly hold: string;
  /** Whether others that read may have the key at the same time. */
  readonly reads: boolean;
  readonly process: string;
  readonly from: number;
  /** Until when its process could believe that it held the key. */
  readonly until: number;
  /** Nobody learns anything about a lease that is not renewed before it ends. */
  isRenewed: boolean;
  lease: Lease;
}

/** One of a call of ours. */
export interface OwnSection extends Section {
  readonly call: Call;
  readonly token: number;
}

/** In the order of their beginnings. */
export function sectionsOf(history: readonly Entry[], calls: Iterable<Call>): Section[] {
  const byId = new Map([...calls].map((call) => [call.id, call]));
  const own = [...byId.values()]
    .flatMap((call) => sectionsOfCall(call, byId))
    .sort((a, b) => a.from - b.from);
  traceLeases(own);
  const foreign = history.flatMap((entry) =>
    entry.kind === 'foreign' ? foreignSection(entry) : [],
  );
  return [...foreign, ...own].sort((a, b) => a.from - b.from);
}

function foreignSection({ call: id, key, at: from, until, leaseMs }: Entry<'foreign'>): Section {
  return {
    ...{ call: undefined, id, key, token: undefined, hold: id, process: 'foreign', from, until },
    ...{ reads: false, isRenewed: false },
    lease: { from, lengthMs: leaseMs },
  };
}

function sectionsOfCall(call: Call, calls: ReadonlyMap<string, Call>): OwnSection[] {
  const { held, id, service, process } = call;
  if (held === undefined) return [];
  return Object.entries(held.tokens).map(([key, token]) => {
    const root = rootOfHold(call, key, calls);
    const reads = readsKey(root, key);
    const hold = `${service} ${key} ${token}${reads ? ` ${root.id}` : ''}`;
    return {
      ...{ call, id, key, token, hold, reads, process },
      from: held.at,
      until: believedUntil(call),
      isRenewed: call.renew,
      // Of several keys, the first may have been held for long when the last one was granted.
      lease: { from: isSeveral(call) ? call.askedAt : held.at, lengthMs: leaseLengthMs(call) },
    };
  });
}

/** The outermost call that has the key with the same token. Between the two, calls may want other keys alone. */
function rootOfHold(call: Call, key: string, calls: ReadonlyMap<string, Call>): Call {
  let root = call;
  for (let at: Call | undefined = call; at !== undefined; at = around(at, calls)) {
    if (at.held?.tokens[key] === call.held?.tokens[key]) root = at;
  }
  return root;
}

/**
 * Within a service, the next number means that the same lease was passed on to the next call. Readers with the same
 * number share one.
 */
function traceLeases(sections: readonly OwnSection[]): void {
  const lastOf = new Map<string, OwnSection>();
  for (const section of sections) {
    const { reads, token, key, call } = section;
    const place = `${call.service} ${key}${reads ? ` ${token}` : ''}`;
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
