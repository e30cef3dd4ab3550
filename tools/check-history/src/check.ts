import { type Call, entriesInto, readCalls, TIMER_MS } from './calls.js';
import { Calm } from './calm.js';
import { deadHolders } from './dead-holders.js';
import type { Finding } from './finding.js';
import { handOvers } from './hand-overs.js';
import type { HistoryLine } from './history.js';
import { orderOfWaiters } from './order.js';

/** Beyond its time limit, a wait may last as long as a command may take, and a moment. */
const WAIT_SLACK_MS = 7_000;
/** The same if nothing has disturbed the server. */
const CALM_WAIT_SLACK_MS = 1_000;

/** How long a released key may be free before somebody who waits gets it: packets may be lost more than once. */
const FREE_SLACK_MS = 2_000;
/** For how long a process that has died may be granted a key before the next one gets it, beside a round trip. */
const DEAD_GRANT_MS = 1_100;

/** @param lines a whole history, with its end */
export function checkHistory(lines: readonly HistoryLine[]): Finding[] {
  const calls = readCalls(lines);
  const calm = new Calm(lines);
  const keys = new Set(calls.flatMap((call) => call.keys));
  return [
    ...[...keys].flatMap((key) => {
      const ofKey = calls.filter((call) => call.keys.includes(key));
      return [
        ...exclusion(lines, key, ofKey),
        ...risingFences(lines, key, ofKey),
        ...servedKeys(key, ofKey, calm),
        ...deadHolders(key, ofKey, calm),
        ...orderOfWaiters(key, ofKey, calm),
      ];
    }),
    ...handOvers(calls, calm),
    ...overdueEffects(calls),
    ...endings(lines, calls, calm),
  ].sort((a, b) => a.at - b.at);
}

/**
 * Nobody enters while another one still acts and believes. If its lease was lost without it, it may do so until it asks
 * the next time, or until the end that it knows of: for one lease.
 */
function exclusion(lines: readonly HistoryLine[], key: string, calls: readonly Call[]): Finding[] {
  const losses = lostLeases(lines);
  const entered = entriesInto(calls);
  return entered.flatMap((later, i) =>
    entered.slice(0, i).flatMap((earlier) => {
      const { index, at } = earlier.actsUntil;
      const isExcused = losses.some(
        (loss) =>
          loss > earlier.calledAt.index &&
          loss < later.entered.index &&
          at <= (lines[loss] as HistoryLine).at + earlier.leaseMs + TIMER_MS,
      );
      if (index < later.entered.index || isExcused) return [];
      const text = `${later.name} entered '${key}' while ${earlier.name} still acted under it`;
      const both = [earlier.name, later.name] as const;
      return [{ rule: 'two hold one key', at: later.entered.at, text, calls: both } as const];
    }),
  );
}

function risingFences(
  lines: readonly HistoryLine[],
  key: string,
  calls: readonly Call[],
): Finding[] {
  // A server that has lost its numbers, and whose clock is behind, cannot know them.
  if (indicesOf(lines, 'lost data').length > 0 && indicesOf(lines, 'clock set back').length > 0)
    return [];
  const entered = entriesInto(calls);
  // A lock that gives no fences promises nothing of them.
  if (entered.every(({ fences }) => fences[key] === undefined)) return [];
  const losses = lostLeases(lines);
  let highest = -Infinity;
  return entered.flatMap((call) => {
    const fence = call.fences[key] ?? NaN;
    const before = highest;
    highest = Math.max(highest, fence);
    // Its lease may have been lost before it entered, while it waited for another key.
    const isExcused = losses.some(
      (loss) => loss > call.calledAt.index && loss < call.entered.index,
    );
    if (fence > before || isExcused) return [];
    const text = `${call.name} entered '${key}' with fence ${fence}, after ${before}`;
    return [{ rule: 'fences rise', at: call.entered.at, text } as const];
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

/**
 * A key is not free for long beside somebody who waits for it, while nothing disturbs the server. A process that dies
 * or stands still may have been granted it, and then keeps it for a lease.
 */
function servedKeys(key: string, calls: readonly Call[], calm: Calm): Finding[] {
  const leaseMs = Math.max(0, ...calls.map((call) => call.leaseMs));
  const taken = calls.flatMap((call) => {
    // A call for several keys may hold one of them while it waits for the others.
    const since = call.keys.length > 1 ? call.calledAt : call.entered;
    return since === undefined ? [] : [[since.at, call.freeAt] as const];
  });
  return calls.flatMap((call) => {
    const from = call.calledAt.at;
    const until = call.entered?.at ?? call.endedAt;
    if (call.keys.length > 1 || until === undefined) return [];
    const since = from - leaseMs - FREE_SLACK_MS;
    if (!calm.ofServer(since, until)) return [];
    const absentMs = calm.ofAll(since, until) ? 0 : leaseMs + call.pausedMs;
    const limitMs = FREE_SLACK_MS + calm.deadAt(until) * DEAD_GRANT_MS + absentMs;
    const longest = longestGap(from, until, taken);
    if (longest <= limitMs) return [];
    const text = `${call.name} waited for '${key}', which was free for ${Math.round(longest)} ms`;
    return [{ rule: 'a free key is served', at: until, text }];
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
    const isCalm = calm.ofServer(call.calledAt.at - WAIT_SLACK_MS, until);
    if (waitedMs > call.waitMs + (isCalm ? CALM_WAIT_SLACK_MS : WAIT_SLACK_MS)) {
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

/** The longest time between two moments in which no interval covers anything. */
function longestGap(
  from: number,
  until: number,
  taken: readonly (readonly [from: number, until: number])[],
): number {
  let longest = 0;
  let free = from;
  for (const [start, end] of [...taken].sort(([a], [b]) => a - b)) {
    if (start >= until) break;
    longest = Math.max(longest, start - free);
    free = Math.max(free, end);
  }
  return Math.max(longest, until - free);
}
