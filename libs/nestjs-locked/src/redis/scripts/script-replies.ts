import type { LockRecord, WaiterRecord } from '../../core/store/lock-inspector.js';
import type {
  AcquireReply,
  AdoptReply,
  Busy,
  Granted,
  LeaveReply,
  Lost,
  ObservedHour,
  Queued,
  ReleaseReply,
  Renewed,
  RequeueReply,
  SharedStalls,
  Unknown,
} from '../../core/store/lock-store.js';

/**
 * Whether the script only dropped the maximum number of dead waiters. Its command counts as still in flight until it is
 * sent again.
 */
export function isUnfinished(reply: unknown): boolean {
  return Array.isArray(reply) && reply[0] === 'again';
}

/** Whether the answer grants a lease to the sender. */
export function isGranted(reply: unknown): boolean {
  return Array.isArray(reply) && reply[0] === 'granted';
}

/** The same for `acquire`, which answers with only a number if the lock was free. */
export function isAcquired(reply: unknown): boolean {
  return !Array.isArray(reply) || reply[0] === 'granted';
}

/** Whether at least one of the leases was prolonged. */
export function isRenewed(reply: unknown): boolean {
  return Array.isArray(reply) && reply.some((entry) => Array.isArray(entry) && entry.length > 0);
}

/** The same for `prolong`, which answers first how many were. */
export function isProlonged(reply: unknown): boolean {
  return Array.isArray(reply) && Number(reply[0]) > 0;
}

/**
 * Parses the scripts' replies into unions. Numbers above 2^31 are sent as strings, and some clients return every number
 * as a string.
 */

/** @param token the token introduced by the command */
export function readAcquireReply(reply: unknown, token: string): Exclude<AcquireReply, Unknown> {
  if (!Array.isArray(reply)) return grantedAtOnce(token, number(reply));
  const [kind, ...rest] = list(reply);
  return kind === 'busy' ? busy(rest) : readRequeueReply(reply);
}

/** What the script of `inspect` knows: not the processes. */
export interface InspectedLock extends Omit<LockRecord, 'key' | 'holders' | 'queue'> {
  readonly waiting: readonly Omit<WaiterRecord, 'process'>[];
}

/** @returns `granted` for every token, or `busy` for every token */
export function readTogetherReply(
  reply: unknown,
  tokens: readonly string[],
): Exclude<AcquireReply, Unknown>[] {
  const [kind, ...rest] = list(reply);
  const each = entries(rest, tokens.length);
  switch (kind) {
    case 'granted':
      return tokens.map((token, i) => granted([token, ...list(each[i]), 0]));
    case 'busy':
      return each.map((entry) => busy(list(entry)));
    default:
      throw unreadable(reply);
  }
}

export function readRequeueReply(reply: unknown): Exclude<RequeueReply, Unknown> {
  const [kind, ...rest] = list(reply);
  switch (kind) {
    case 'granted':
      return granted(rest);
    case 'queued':
      return queued(rest);
    default:
      throw unreadable(reply);
  }
}

export function readHandoverReply(reply: unknown): Exclude<RequeueReply, Unknown> {
  const asked = readRequeueReply(reply);
  return list(reply)[5] === 'lost' ? { ...asked, wasLost: true } : asked;
}

export function readLeaveReply(reply: unknown): Exclude<LeaveReply, Unknown> {
  const [kind, ...rest] = list(reply);
  switch (kind) {
    case 'granted':
      return granted(rest);
    case 'left':
      return { kind };
    default:
      throw unreadable(reply);
  }
}

export function readAdoptReply(reply: unknown): Exclude<AdoptReply, Unknown> {
  const [kind, ...rest] = list(reply);
  switch (kind) {
    case 'granted':
      return granted(rest);
    case 'lost':
      return { kind };
    default:
      throw unreadable(reply);
  }
}

export function readReleaseReply(reply: unknown): Exclude<ReleaseReply, Unknown> {
  const kind: unknown = Array.isArray(reply) ? reply[0] : reply;
  if (kind === 'released' || kind === 'lost') return { kind };
  throw unreadable(reply);
}

/** @param count the number of leases to renew, whose entries are identified by position */
export function readRenewReply(reply: unknown, count: number): (Renewed | Lost)[] {
  return entries(reply, count).map((entry) => {
    const [blockEnd, waiters, ...more] = list(entry);
    if (blockEnd === undefined) return { kind: 'lost' };
    if (more.length > 0) throw unreadable(reply);
    return { kind: 'renewed', blockEnd: number(blockEnd), waiters: number(waiters) };
  });
}

export function readSharedStalls(reply: unknown): SharedStalls {
  const observed = String(reply).matchAll(/(\d+):(\d+)/g);
  return {
    kind: 'shared',
    observed: Array.from(observed, ([, hour, ms]): ObservedHour => [Number(hour), Number(ms)]),
  };
}

/** @param count the number of leases to prolong; the answer names those that were lost or are wanted */
export function readProlongReply(reply: unknown, count: number): (Renewed | Lost)[] {
  const [prolonged, ...named] = list(reply);
  const replies = Array.from({ length: count }, (): Renewed | Lost => {
    return { kind: 'renewed', blockEnd: 0, waiters: 0 };
  });
  let lost = 0;
  for (const entry of named) {
    const [i, waiters, ...more] = list(entry).map(number);
    if (i === undefined || !(i - 1 in replies) || more.length > 0) throw unreadable(reply);
    if (waiters === undefined) lost++;
    replies[i - 1] =
      waiters === undefined ? { kind: 'lost' } : { kind: 'renewed', blockEnd: 0, waiters };
  }
  if (number(prolonged) + lost !== count) throw unreadable(reply);
  return replies;
}

/** @param count the number of items to take back @returns the failure of each; undefined if it was taken back */
export function readTakeBackReply(reply: unknown, count: number): (string | undefined)[] {
  return entries(reply, count).map((entry) => (entry === 'left' ? undefined : String(entry)));
}

export function readInspectReply(reply: unknown): InspectedLock | undefined {
  const [value, pttl, waiters, waitsHere, named] = list(reply);
  if (value === undefined) return undefined;
  return {
    value: text(value),
    remainingMs: remaining(pttl),
    waiters: number(waiters),
    waitsHere: number(waitsHere),
    waiting: waitingIn(list(named)),
  };
}

/** @param named tokens, each followed by how long it has waited */
function waitingIn(named: readonly unknown[]): InspectedLock['waiting'] {
  return named.flatMap((token, i) =>
    i % 2 === 0 ? { token: text(token), waitedMs: number(named[i + 1]) } : [],
  );
}

/** @param reply empty for a free lock among several requested together */
function busy([pttl, foreign]: unknown[]): Busy {
  if (pttl === undefined) return { kind: 'busy', remainingMs: 0, wasFree: true };
  return { kind: 'busy', remainingMs: remaining(pttl), foreign: number(foreign) === 1 };
}

/** The lock was free: one number was reserved, and there are no waiters. */
function grantedAtOnce(token: string, fence: number): Granted {
  return { kind: 'granted', token, fence, blockEnd: fence, waiters: 0 };
}

function granted([token, fence, blockEnd, waiters, , slot]: unknown[]): Granted {
  const reply = {
    kind: 'granted',
    token: String(token),
    fence: number(fence),
    blockEnd: number(blockEnd),
    waiters: number(waiters),
  } as const;
  return slot === undefined ? reply : { ...reply, slot: number(slot) };
}

function queued([token, score, pttl, foreign, , head = '', permits]: unknown[]): Queued {
  const reply = {
    kind: 'queued',
    token: String(token),
    position: number(score),
    remainingMs: remaining(pttl),
    foreign: number(foreign) === 1,
  } as const;
  return {
    ...reply,
    ...(head !== '' && { head: text(head) }),
    ...(permits !== undefined && { permits: number(permits) }),
  };
}

/** PTTL returns -1 for a key without expiry, and -2 for a key that no longer exists. */
function remaining(pttl: unknown): number {
  const ms = number(pttl);
  return ms === -1 ? Infinity : Math.max(0, ms);
}

/** @returns the entries of a reply, one for each key */
export function entries(reply: unknown, count: number): unknown[] {
  const found = list(reply);
  if (found.length !== count) throw unreadable(reply);
  return found;
}

export function list(reply: unknown): unknown[] {
  if (Array.isArray(reply)) return reply;
  throw unreadable(reply);
}

function text(value: unknown): string {
  if (typeof value === 'string' || typeof value === 'number') return String(value);
  throw unreadable(value);
}

export function number(value: unknown): number {
  const result = Number(value);
  if (value === null || value === undefined || Number.isNaN(result)) throw unreadable(value);
  return result;
}

export function unreadable(reply: unknown): Error {
  return new Error(`unexpected reply ${JSON.stringify(reply)}`);
}
