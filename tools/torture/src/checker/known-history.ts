import { checkHistory, type Finding, type HistoryLine } from 'check-history';
import { groupBy } from '../collections.js';
import { type Fault, MAIN_PROCESS, SLOW_PULSE } from '../history/entry.js';
import { CROWD_KEYS } from '../keys.js';
import { type Call, leaseLengthMs } from './call.js';
import type { Facts } from './facts.js';
import { freeFrom } from './occupation.js';

/** What it judges of a history of torture. The rules here know more of what excuses two holders, or a free key. */
const RULES: ReadonlySet<Finding['rule']> = new Set([
  'a wait ends in time',
  'a dead holder keeps a key for one lease',
  'who waits longer comes first',
  'a hand-over is prompt',
  'readers do not pass a writer',
  'no permit is idle',
]);

/** Those that only a lock keeps that has an order of those that wait, and hands a key over. */
const OF_ORDER: ReadonlySet<Finding['rule']> = new Set([
  'who waits longer comes first',
  'a hand-over is prompt',
]);

/** Each is wanted for a moment only, and they are so many that reading them takes long. */
const CROWD: ReadonlySet<string> = new Set(CROWD_KEYS);

/** How long what was done to a server or a key has effects, at most. */
const HEALING_MS = 3_500;
/** A process or a server that stands still for less than this explains none of what is found. */
const SHORT_MS = 200;

function healingMsOf({ name, at, until, healingMs = HEALING_MS }: Fault): number {
  return name === SLOW_PULSE && until - at < SHORT_MS ? 0 : healingMs;
}

/** What a checker says that knows nothing of this library, nor of this tool. */
export function* knownViolations(facts: Facts): Iterable<string> {
  for (const { rule, text } of checkHistory(linesOf(facts))) {
    if (facts.limits.isUnordered === true && OF_ORDER.has(rule)) continue;
    if (RULES.has(rule)) yield `${rule}: ${text}`;
  }
}

/** The history as that checker reads it. For it, each lock service is a process, and calls inside of calls are one. */
function linesOf(facts: Facts): HistoryLine[] {
  const { calls, own, history } = facts;
  const holds = groupBy(own, ({ hold }) => hold);
  const freeAt = new Map<Call, number>();
  const leasesMs = new Map<Call, number>();
  for (const sections of holds.values()) {
    for (const { call, reads, lease } of sections) {
      freeAt.set(call, Math.max(freeAt.get(call) ?? -Infinity, ...sections.map(freeFrom)));
      if (reads) leasesMs.set(call, Math.max(leasesMs.get(call) ?? 0, lease.lengthMs));
    }
  }
  const services = new Map<string, Set<string>>();
  const lines: HistoryLine[] = [];
  for (const call of calls.values()) {
    services.set(call.process, (services.get(call.process) ?? new Set()).add(call.service));
    const isJudged = call.keys.every((key) => !CROWD.has(key)) && !isInside(call, calls);
    if (isJudged) lines.push(...linesOfCall(call, freeAt.get(call), leasesMs.get(call)));
  }
  for (const entry of history) {
    const { at } = entry;
    const tell = (type: 'paused' | 'continued' | 'died' | 'closed', when = at): void => {
      if (!('process' in entry)) return;
      for (const process of services.get(entry.process) ?? []) {
        lines.push({ at: when, process, type });
      }
    };
    if (entry.kind === 'killed' || entry.kind === 'exited') tell('died');
    if (entry.kind === 'closing' || entry.kind === 'closed') tell('closed');
    if (entry.kind === 'stalled' && at - entry.since >= SHORT_MS) {
      tell('paused', entry.since);
      tell('continued');
      if (entry.process === MAIN_PROCESS) lines.push(disturbed(entry.since, at, 'stalled'));
    }
    if (entry.kind === 'foreign') {
      lines.push(disturbed(at, entry.until, entry.kind, [entry.key]));
    }
    if (entry.kind !== 'fault') continue;
    for (const keys of keysOf(entry)) {
      lines.push(disturbed(at, entry.until + healingMsOf(entry), entry.name, keys));
    }
  }
  return lines.sort((a, b) => a.at - b.at);
}

/** Inside a call that has a key alone, a call joins that, whatever it wants. */
function wantedAs(
  permits: NonNullable<Call['permits']>,
  held: Call['held'],
): NonNullable<Call['permits']> {
  const wanted = Object.entries(permits).filter(([key]) => held?.tokens[key] === undefined);
  return Object.fromEntries(wanted);
}

const OUTCOMES: Readonly<Record<string, 'busy' | 'not adopted'>> = {
  LOCK_NOT_ACQUIRED: 'busy',
  LOCK_NOT_ADOPTED: 'not adopted',
};

/** @param sharedMs the length of a lease that it shares with other readers */
function linesOfCall(call: Call, freeAt: number | undefined, sharedMs = 0): HistoryLine[] {
  const { service: process, id, keys, reads = [], waitMs, askedAt, held, refused } = call;
  const of = { process, call: id };
  const { permits, weight, adopts, detaches, detached } = call;
  const terms = {
    ...{ keys, waitMs, leaseMs: Math.max(leaseLengthMs(call), sharedMs), mode: { reads } },
    ...(permits !== undefined && { permits: wantedAs(permits, held) }),
    ...(weight !== undefined && { weight }),
    ...(adopts !== undefined && { adopts }),
  };
  const called = { ...of, type: 'called', ...terms } as const;
  const lines: HistoryLine[] = [{ at: askedAt, ...called }];
  if (refused !== undefined) {
    const outcome = OUTCOMES[refused.code] ?? 'failed';
    lines.push({ at: refused.at, ...of, type: 'ended', outcome });
  }
  if (held === undefined) return lines;
  const believed = held.remainingMs > 0;
  const { tokens: fences, slots = {} } = held;
  lines.push({ at: held.at, ...of, type: 'entered', fences, slots, believed });
  if (detaches !== undefined)
    lines.push({ at: detaches.at, ...of, type: 'detaches', forMs: detaches.ms });
  if (detached !== undefined) lines.push({ at: detached.at, ...of, type: 'detached', text: id });
  if (call.killedAt !== undefined || freeAt === undefined || freeAt === Infinity) return lines;
  const left = { at: freeAt, ...of, type: 'left' } as const;
  return [...lines, left, { ...left, type: 'ended', outcome: 'done' }];
}

/** Whether a call shares the hold of one around it, or never had its keys and so kept nobody from them. */
function isInside(call: Call, calls: Facts['calls']): boolean {
  if (call.parent === undefined) return false;
  const outer = calls.get(call.parent);
  if (call.held === undefined || outer === undefined) return true;
  const { tokens, slots = {} } = call.held;
  const isShared =
    Object.entries(outer.held?.tokens ?? {}).some(([key, token]) => tokens[key] === token) ||
    Object.entries(outer.held?.slots ?? {}).some(([key, slot]) => slots[key] === slot);
  return isShared && call.keys.every((key) => outer.keys.includes(key));
}

/** The keys that a fault concerns, once for each thing that it does; undefined: all. */
function keysOf({ disturbs, silences }: Fault): (readonly string[] | undefined)[] {
  const concerned: readonly Fault['disturbs'][] = [disturbs, silences ?? 'nothing'];
  return concerned.flatMap((of) => {
    if (of === 'nothing') return [];
    if (of === 'all') return [undefined];
    if ('serverOf' in of) return [of.serverOf];
    return [['key' in of ? of.key : of.slotOf]];
  });
}

function disturbed(at: number, until: number, what: string, keys?: readonly string[]): HistoryLine {
  return { at, type: 'disturbed', what, until, ...(keys !== undefined && { keys }) };
}
