import { type Call, waitedUntil } from './calls.js';
import { type Calm, HEALING_MS, type Span } from './calm.js';
import type { Finding } from './finding.js';

/** For how long a process that has died may be granted a key before the next one gets it, beside a round trip. */
export const DEAD_GRANT_MS = 1_100;

/**
 * A key is not free for long beside somebody who waits for it, while nothing disturbs the server. A process that dies
 * or stands still may have been granted it, and then keeps it for a lease. A full memory is no reason for whoever was
 * in the queue before, if the key was released.
 *
 * To a reader, a key that others read is free as well, unless somebody waits for it alone.
 */
export function servedKeys(key: string, calls: readonly Call[], calm: Calm): Finding[] {
  const leaseMs = Math.max(0, ...calls.map((call) => call.leaseMs));
  const taken = calls.flatMap((call) => {
    // A call for several keys may hold one of them while it waits for the others.
    const since = call.keys.length > 1 ? call.calledAt : call.entered;
    if (since === undefined) return [];
    return [{ from: since.at, until: takenUntil(call, since.at, calm) }];
  });
  // A process that has died may wait in several places: for the key alone, as a reader, and for permits.
  const places = calls.some(({ reads }) => reads) ? 2 : 1;
  const deadWaiters = (until: number): number =>
    calls.filter(
      (call) =>
        call.diedAt !== undefined && call.diedAt < until && waitedUntil(call) === call.diedAt,
    ).length;
  const closedToReaders = calls
    .filter(({ reads }) => !reads)
    .map((call) => ({ from: call.calledAt.at, until: takenUntil(call, call.calledAt.at, calm) }));
  return calls.flatMap((call) => {
    const from = call.calledAt.at;
    const until = call.entered?.at ?? call.endedAt;
    if (call.keys.length > 1 || until === undefined) return [];
    const since = from - leaseMs - HEALING_MS;
    if (!calm.ofServerDespiteLack(since, until) || !calm.ofKey(key, since, until)) return [];
    const absentMs = calm.ofAll(since, until) ? 0 : leaseMs + call.pausedMs;
    const ofTheDead = Math.max(places * calm.deadAt(until), deadWaiters(until));
    const nobodys = ofTheDead + calm.lateAt(key, until);
    const usualMs = calm.bounds.freeMs + calm.slackMs(since, until);
    const limitMs = usualMs + nobodys * DEAD_GRANT_MS + absentMs;
    const lack = calm.lackIn(since, until);
    const isReleased = (gap: Span): boolean =>
      lack === undefined ||
      (from + HEALING_MS < lack.from && calls.some(({ leftAt }) => leftAt === gap.from));
    const isTooLong = (each: Span): boolean => each.until - each.from > limitMs && isReleased(each);
    // A writer that stands still, or died without a word, keeps its place.
    const isOpen = call.reads && calm.ofAll(since, until) && calm.deadAt(until) === 0;
    const gap =
      gapsIn(from, until, taken).find(isTooLong) ??
      (isOpen ? gapsIn(from, until, closedToReaders).find(isTooLong) : undefined);
    if (gap === undefined) return [];
    const freeMs = Math.round(gap.until - gap.from);
    const text = `${call.name} waited for '${key}', which was free${call.reads ? ' to readers' : ''} for ${freeMs} ms`;
    return [{ rule: 'a free key is served', at: until, text }];
  });
}

/** What is not released ends by the clock of the server. */
function takenUntil({ leftAt, endedAt, freeAt }: Call, since: number, calm: Calm): number {
  const isReleased = freeAt === leftAt || freeAt === endedAt;
  return isReleased ? freeAt : calm.endInServer(since, freeAt);
}

/** When nothing was taken, between two moments. */
function gapsIn(from: number, until: number, taken: readonly Span[]): Span[] {
  const gaps: Span[] = [];
  let free = from;
  for (const span of [...taken].sort((a, b) => a.from - b.from)) {
    if (span.from >= until) break;
    if (span.from > free) gaps.push({ from: free, until: span.from });
    free = Math.max(free, span.until);
  }
  return until > free ? [...gaps, { from: free, until }] : gaps;
}
