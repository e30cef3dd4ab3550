import type { Entry } from '../history/entry.js';
import {
  around,
  believedUntil,
  type Call,
  isSeveral,
  leaseLengthMs,
  type Permit,
  permitOf,
  readsKey,
} from './call.js';

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
  /** Undefined for a client of another kind, and while nobody has a lock that was detached. */
  readonly call: Call | undefined;
  /** What messages about violations call it. */
  readonly id: string;
  readonly key: string;
  /** Undefined for a client of another kind, and for a permit. */
  readonly token: number | undefined;
  /** Sections with one token in one service share a hold, unless they read: then only those of one outermost call. */
  readonly hold: string;
  /** Whether others that read may have the key at the same time. */
  readonly reads: boolean;
  /** Whether others may have the key at the same time that have permits of it as well. */
  readonly permit: Permit | undefined;
  /** When somebody else can have the key, if that is not told by the call. */
  readonly freeAt?: number;
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
}

/** Whether the two may have a key at the same time, as far as the way goes in which they have it. */
export function areJoint(one: Section, other: Section): boolean {
  if (one.permit !== undefined) return other.permit !== undefined;
  return one.reads && other.reads;
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
  const detached = [...byId.values()].flatMap((call) => detachedSections(call, byId.values()));
  return [...foreign, ...detached, ...own].sort((a, b) => a.from - b.from);
}

function foreignSection({ call: id, key, at: from, until, leaseMs }: Entry<'foreign'>): Section {
  return {
    ...{ call: undefined, id, key, token: undefined, hold: id, process: 'foreign', from, until },
    ...{ reads: false, permit: undefined, isRenewed: false },
    lease: { from, lengthMs: leaseMs },
  };
}

/** A lock that was detached is nobody's until somebody asks to adopt it, and then may be that one's. */
function detachedSections(call: Call, calls: Iterable<Call>): Section[] {
  const { detached, detaches, keys, process } = call;
  if (detached === undefined || detaches === undefined) return [];
  const adopters = [...calls].filter(({ adopts }) => adopts === call.id);
  const { at, ms } = { ...detaches, ms: detaches.ms * 0.99 - 5 };
  const until = Math.min(at + ms, ...adopters.map(({ askedAt }) => askedAt));
  const adoptedAt = adopters.map(({ held }) => held?.at ?? Infinity);
  const freeAt = Math.min(detached.at + leaseLengthMs(call), ...adoptedAt);
  const id = `${call.id}, detached,`;
  return keys.map((key) => ({
    ...{ call: undefined, id, key, token: undefined, hold: id, process, from: detached.at, until },
    ...{ reads: false, permit: undefined, isRenewed: false, freeAt },
    lease: { from: at, lengthMs: leaseLengthMs(call) },
  }));
}

function sectionsOfCall(call: Call, calls: ReadonlyMap<string, Call>): OwnSection[] {
  const { held, id, service, process } = call;
  if (held === undefined) return [];
  return [...Object.keys(held.tokens), ...Object.keys(held.slots ?? {})].map((key) => {
    const token = held.tokens[key];
    const root = rootOfHold(call, key, calls);
    const reads = readsKey(root, key);
    const permit = permitOf(root, key);
    const isJoint = reads || permit !== undefined;
    const hold = `${service} ${key} ${token ?? 'permit'}${isJoint ? ` ${root.id}` : ''}`;
    return {
      ...{ call, id, key, token, hold, reads, permit, process },
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
    if (at.held === undefined || call.held === undefined) continue;
    const isSame = key in call.held.tokens || key in (at.held.slots ?? {});
    const areEqual =
      at.held.tokens[key] === call.held.tokens[key] &&
      at.held.slots?.[key] === call.held.slots?.[key];
    const isLost = (at.lost?.at ?? Infinity) < (root.held?.at ?? Infinity);
    if (!isSame || !areEqual) continue;
    if (isLost && mayHaveItAnew(root, key)) return root;
    root = at;
  }
  return root;
}

/**
 * Whether it may have got the same slot, or the lease that readers of its process share, after the call around it had
 * lost the key: while it waited for another of its keys.
 */
function mayHaveItAnew(call: Call, key: string): boolean {
  return key in (call.held?.slots ?? {}) || (isSeveral(call) && readsKey(call, key));
}

/**
 * Within a service, the next number means that the same lease was passed on to the next call. Readers with the same
 * number share one.
 */
function traceLeases(sections: readonly OwnSection[]): void {
  const lastOf = new Map<string, OwnSection>();
  for (const section of sections) {
    const { reads, permit, token = 0, key, call, hold } = section;
    const place = permit ? hold : `${call.service} ${key}${reads ? ` ${token}` : ''}`;
    const last = lastOf.get(place);
    const distance = permit ? 0 : token - (last?.token ?? -Infinity);
    if (last !== undefined && (distance === 0 || distance === 1)) {
      last.lease.from = Math.min(last.lease.from, section.lease.from);
      last.lease.lengthMs = Math.max(last.lease.lengthMs, section.lease.lengthMs);
      section.lease = last.lease;
      if (distance === 0) section.isRenewed = last.isRenewed; // it joined the hold unchanged
    }
    lastOf.set(place, section);
  }
}
