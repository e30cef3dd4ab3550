import { type Call, entriesInto, leaseLastsUntil, waitedUntil } from './calls.js';
import type { Calm } from './calm.js';
import type { Finding } from './finding.js';
import { DEAD_GRANT_MS } from './free-keys.js';

/** The key of a process that died goes to somebody who waits when the lease is over, unless others read beside it. */
export function deadHolders(key: string, calls: readonly Call[], calm: Calm): Finding[] {
  const entries = entriesInto(calls);
  return entries.flatMap((holder): Finding[] => {
    const { diedAt, leaseMs, leftAt, process } = holder;
    if (diedAt === undefined || leftAt !== undefined) return [];
    const overAt = leaseLastsUntil(holder, diedAt);
    // The dead may have waited as well, for the key in other modes, or for several permits.
    const places = calls.filter(
      (call) => call.process === process && call !== holder && waitedUntil(call) === diedAt,
    );
    const slackMs = calm.slackMs(diedAt - leaseMs, overAt + calm.bounds.seenMs);
    const seenMs = calm.bounds.seenMs + slackMs + places.length * DEAD_GRANT_MS;
    const waits = calls.filter(
      (call) =>
        call.keys.length === 1 &&
        call.process !== holder.process &&
        call.calledAt.at < overAt &&
        call.pausedMs === 0 &&
        waitedUntil(call) > overAt + seenMs,
    );
    const until = overAt + seenMs;
    const isTaken = calls.some(
      (call) =>
        call !== holder &&
        // Of several keys, it may have this one.
        (call.keys.length > 1
          ? call.calledAt.at < until
          : isWithin(call.entered?.at, diedAt, until)),
    );
    // Others may read beside it.
    const isShared = entries.some(
      (other) => other !== holder && other.entered.at < overAt && other.freeAt > overAt,
    );
    if (waits.length === 0 || isTaken || isShared || !calm.ofServer(diedAt - leaseMs, until))
      return [];
    // Another process that dies or stands still may have been granted it.
    if (!calm.ofKey(key, diedAt - leaseMs, until)) return [];
    if (!calm.ofAll(diedAt, until) || !calm.ofAll(diedAt - leaseMs, diedAt)) return [];
    const text = `'${key}' of ${holder.name}, which died, was not given to ${waits[0]?.name} ${seenMs} ms after the end of its lease`;
    return [{ rule: 'a dead holder keeps a key for one lease', at: until, text }];
  });
}

function isWithin(at: number | undefined, from: number, until: number): boolean {
  return at !== undefined && at > from && at < until;
}
