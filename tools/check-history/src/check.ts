import {
  type Call,
  callsFor,
  type Entered,
  entriesInto,
  isPartyOf,
  leaseLastsUntil,
  readCalls,
} from './calls.js';
import { Calm, HEALING_MS } from './calm.js';
import { deadHolders } from './dead-holders.js';
import { failures } from './failures.js';
import type { Finding } from './finding.js';
import { servedKeys } from './free-keys.js';
import { handOffs, keptForAdopters } from './hand-offs.js';
import { handOvers } from './hand-overs.js';
import type { HistoryLine } from './history.js';
import { orderOfWaiters } from './order.js';
import { passedWriters } from './passed-writers.js';
import { idlePermits, tooMuchHeld } from './permits.js';

/** Beyond its time limit, a wait may last as long as a command may take, and a moment. */
const WAIT_SLACK_MS = 7_000;
/** @param lines a whole history, with its end */
export function checkHistory(lines: readonly HistoryLine[]): Finding[] {
  const calm = Calm.in(lines);
  const calls = readCalls(lines, calm.bounds);
  const keys = new Set(calls.flatMap((call) => call.keys));
  return [
    ...[...keys].flatMap((key) => {
      const ofKey = callsFor(key, calls);
      const about = calm.about(ofKey);
      return [
        ...exclusion(lines, key, ofKey, about),
        ...risingFences(lines, key, ofKey),
        ...keptKeys(lines, key, ofKey, calls, about),
        ...takenKeys(lines, key, ofKey, about),
        ...keptForAdopters(key, ofKey, about),
        ...servedKeys(key, ofKey, about),
        ...idlePermits(key, ofKey, about),
        ...deadHolders(key, ofKey, about),
        ...orderOfWaiters(key, ofKey, about),
        ...passedWriters(key, ofKey, about),
      ];
    }),
    ...handOvers(calls, calm),
    ...handOffs(calls, calm, lostLeases(lines)),
    ...overdueEffects(calls),
    ...failures(calls, calm),
    ...endings(lines, calls, calm),
  ].sort((a, b) => a.at - b.at);
}

/**
 * Nobody enters while another one still acts and believes, unless both read, or both have permits and there is room for
 * both. If its lease was lost without it, it may do so until it asks the next time, or until the end that it knows of:
 * for one lease. So it may if its key was taken away, and it could not be told.
 */
function exclusion(
  lines: readonly HistoryLine[],
  key: string,
  calls: readonly Call[],
  calm: Calm,
): Finding[] {
  const untold = lines.flatMap((line, index) => {
    const isOfKey = line.type === 'taken away' && line.key === key;
    return isOfKey && !calm.ofAll(line.at - HEALING_MS, line.at + HEALING_MS) ? [index] : [];
  });
  const losses = [...lostLeases(lines), ...untold];
  const entered = entriesInto(calls);
  return entered.flatMap((later, i) => {
    const present = entered.slice(0, i).filter((earlier) => {
      const { index, at } = earlier.actsUntil;
      const isExcused = losses.some(
        (loss) =>
          loss > leaseSince(earlier, key, entered) &&
          loss < later.entered.index &&
          at <=
            leaseLastsUntil(earlier, (lines[loss] as HistoryLine).at, loss) + calm.bounds.timerMs,
      );
      const isLate = isLateEntry(later, key, entered, losses, lines);
      return index >= later.entered.index && !isExcused && !isLate;
    });
    const two = present.flatMap((earlier): Finding[] => {
      const havePermits = earlier.most !== undefined && later.most !== undefined;
      if (havePermits || (earlier.reads && later.reads)) return [];
      const text = `${later.name} entered '${key}' while ${earlier.name} still acted under it`;
      const both = [earlier.name, later.name] as const;
      return [{ rule: 'two hold one key', at: later.entered.at, text, calls: both }];
    });
    return [...two, ...tooMuchHeld(key, later, present)];
  });
}

/**
 * Whether its lease may have been lost before it entered: that of one of several keys while it waited for the others,
 * that of earlier readers of its process, whom it has joined, or one that was handed on within its process.
 */
function isLateEntry(
  call: Entered,
  key: string,
  entered: readonly Entered[],
  losses: readonly number[],
  lines: readonly HistoryLine[],
): boolean {
  if (!call.reads && wasHandedOn(call, entered, losses, lines)) return true;
  if (call.keys.length === 1 && !call.reads) return false;
  const sharing = call.reads ? sharingLease(call, key, entered) : [call];
  return losses.some((loss) =>
    sharing.some(
      (each) =>
        loss > each.calledAt.index &&
        loss < call.entered.index &&
        call.entered.at <= leaseLastsUntil(each, (lines[loss] as HistoryLine).at, loss),
    ),
  );
}

/** Whether another call of its process may have had the lost lease, and have handed it on before it was told. */
function wasHandedOn(
  call: Entered,
  entered: readonly Entered[],
  losses: readonly number[],
  lines: readonly HistoryLine[],
): boolean {
  return losses.some((loss) =>
    entered.some(
      (earlier) =>
        earlier.process === call.process &&
        earlier.calledAt.index < loss &&
        loss < call.entered.index &&
        earlier.entered.index < call.entered.index &&
        call.entered.at <= leaseLastsUntil(earlier, (lines[loss] as HistoryLine).at, loss),
    ),
  );
}

/** Readers of one process share a lease, and its fence. */
function sharingLease(call: Call, key: string, entered: readonly Call[]): readonly Call[] {
  const isOfLease = ({ fences }: Call): boolean => fences[key] === call.fences[key];
  return entered.filter(isPartyOf(call)).filter(isOfLease);
}

/** In which line the lease of a call was asked for. */
function leaseSince(call: Call, key: string, entered: readonly Call[]): number {
  const { index } = call.calledAt;
  if (!call.reads) return index;
  const sharing = sharingLease(call, key, entered);
  return Math.min(index, ...sharing.map(({ calledAt }) => calledAt.index));
}

/** The number of a writer is above all before, that of a reader above those of all writers before. */
function risingFences(
  lines: readonly HistoryLine[],
  key: string,
  calls: readonly Call[],
): Finding[] {
  // A server that has lost its numbers, and whose clock is behind, cannot know them.
  if (indicesOf(lines, 'lost data').length > 0 && indicesOf(lines, 'clock set back').length > 0)
    return [];
  const [lostAt = Infinity] = indicesOf(lines, 'numbers lost');
  // A permit has none.
  const entered = entriesInto(calls).filter(({ most }) => most === undefined);
  // A lock that gives no fences promises nothing of them.
  if (entered.every(({ fences }) => fences[key] === undefined)) return [];
  const losses = lostLeases(lines);
  let highest = -Infinity;
  let highestWritten = -Infinity;
  return entered.flatMap((call) => {
    const fence = call.fences[key] ?? NaN;
    const before = call.reads ? highestWritten : highest;
    highest = Math.max(highest, fence);
    if (!call.reads) highestWritten = Math.max(highestWritten, fence);
    // Its lease may have been lost before it entered, while it waited for another key.
    const isExcused =
      losses.some((loss) => loss < call.entered.index && loss > call.calledAt.index) ||
      wasHandedOn(call, entered, losses, lines);
    if (fence > before || isExcused || call.entered.index > lostAt) return [];
    const text = `${call.name} entered '${key}' with fence ${fence}, after ${before}`;
    return [{ rule: 'fences rise', at: call.entered.at, text } as const];
  });
}

/**
 * Nobody enters a key that is kept after the work, while nothing disturbs the server or the process that keeps it, and
 * that reaches the server: it keeps the key with its release, and until then has no longer lease than others.
 */
function keptKeys(
  lines: readonly HistoryLine[],
  key: string,
  ofKey: readonly Call[],
  calls: readonly Call[],
  calm: Calm,
): Finding[] {
  const entered = entriesInto(ofKey);
  return entered.flatMap((later, i) =>
    entered.slice(0, i).flatMap((earlier) => {
      const { keepMs, leaseMs, process } = earlier;
      const leftMs = earlier.entered.at + keepMs - later.entered.at;
      const from = earlier.entered.at - leaseMs - HEALING_MS;
      const { at } = later.entered;
      const isHeard =
        !calm.bounds.mayFail ||
        (!hasFailed(process, calls, from, at) &&
          hasReached(lines, key, process, earlier.leftAt ?? Infinity, at));
      const isCalm =
        isHeard &&
        calm.ofServerDespiteLack(from, at) &&
        calm.ofKey(key, from, at) &&
        calm.of((other) => other === process, from, at);
      if (keepMs === 0 || leftMs <= calm.bounds.timerMs || !isCalm) return [];
      const text = `${later.name} entered '${key}', which ${earlier.name} kept for ${Math.round(leftMs)} ms more`;
      return [{ rule: 'a key is kept', at, text } as const];
    }),
  );
}

/** Whether a command of the process for the key has reached the server between these times, as far as is known. */
function hasReached(
  lines: readonly HistoryLine[],
  key: string,
  process: string,
  from: number,
  until: number,
): boolean {
  const ran = lines.flatMap((line) => (line.type === 'ran' ? [line] : []));
  const isOfIt = ({ by, keys, at }: (typeof ran)[number]): boolean =>
    by === process && keys.includes(`lock:{${key}}`) && at >= from && at < until;
  return ran.length === 0 || ran.some(isOfIt);
}

function hasFailed(process: string, calls: readonly Call[], from: number, until: number): boolean {
  return calls.some(
    ({ process: by, outcome, endedAt = -Infinity }) =>
      by === process && outcome === 'failed' && endedAt > from && endedAt < until,
  );
}

/** Who has a key that is taken away is told at once, if nothing delays the message. */
function takenKeys(
  lines: readonly HistoryLine[],
  key: string,
  calls: readonly Call[],
  calm: Calm,
): Finding[] {
  return lines.flatMap((line, index) => {
    if (line.type !== 'taken away' || line.key !== key) return [];
    const { at } = line;
    if (calm.bounds.mayFail || !calm.ofAll(at - HEALING_MS, at + HEALING_MS)) return [];
    return entriesInto(calls).flatMap(({ name, entered, actsUntil }): Finding[] => {
      const lateMs = Math.round(actsUntil.at - at);
      const limitMs = calm.bounds.freeMs + calm.slackMs(at - HEALING_MS, actsUntil.at);
      if (entered.index > index || lateMs <= limitMs) return [];
      const text = `${name} still acted ${lateMs} ms after '${key}' was taken away`;
      return [{ rule: 'a holder is told of its end', at: actsUntil.at, text }];
    });
  });
}

/** Nobody goes on after the end of its lock without having been told of that end. */
function overdueEffects(calls: readonly Call[]): Finding[] {
  return calls.flatMap(({ name, overdue }): Finding[] => {
    if (overdue === undefined) return [];
    const late = Math.round(overdue.at - overdue.endedAt);
    const text = `${name} still acted ${late} ms after the end of its lock, and was not told of it`;
    return [{ rule: 'a holder is told of its end', at: overdue.at, text }];
  });
}

function endings(lines: readonly HistoryLine[], calls: readonly Call[], calm: Calm): Finding[] {
  const calmAt = lines.find(({ type }) => type === 'calm')?.at ?? Infinity;
  const last = lines.at(-1)?.at ?? 0;
  return calls.flatMap((call): Finding[] => {
    if (call.diedAt !== undefined) return [];
    if (call.endedAt === undefined) {
      return [{ rule: 'every call ends', at: last, text: `${call.name} never ended` }];
    }
    const until = call.entered?.at ?? call.endedAt;
    const waitedMs = until - call.calledAt.at - call.pausedMs;
    const from = Math.min(
      call.calledAt.at - call.leaseMs - HEALING_MS,
      calm.unnoticedSince(call.process, call.calledAt.at),
    );
    const about = calm.about([call]);
    const usualMs = calm.bounds.overtimeMs + about.slackMs(from, until);
    const overtimeMs = about.ofServer(from, until) ? usualMs : WAIT_SLACK_MS;
    if (waitedMs > call.waitMs + overtimeMs) {
      const text = `${call.name} may wait ${call.waitMs} ms, and waited ${Math.round(waitedMs)}`;
      return [{ rule: 'a wait ends in time', at: call.endedAt, text }];
    }
    if (call.calledAt.at > calmAt && (call.outcome === 'busy' || call.outcome === 'failed')) {
      const text = `${call.name} did not get ${call.keys.join(', ')} although nothing was disturbed any more`;
      return [{ rule: 'a free key is served', at: call.endedAt, text }];
    }
    return [];
  });
}

/** Where leases have ended, or were forgotten, without their holders. */
function lostLeases(lines: readonly HistoryLine[]): number[] {
  return [...indicesOf(lines, 'lost data'), ...indicesOf(lines, 'clock set forward')];
}

function indicesOf(lines: readonly HistoryLine[], type: HistoryLine['type']): number[] {
  return lines.flatMap((line, index) => (line.type === type ? [index] : []));
}
