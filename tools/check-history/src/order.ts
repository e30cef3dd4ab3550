import { type Call, entriesInto, isPartyOf, waitedUntil } from './calls.js';
import { type Calm, HEALING_MS } from './calm.js';
import type { Finding } from './finding.js';

/**
 * Who has waited for longer gets the key first. The callers of one process have one place in the queue, and may pass
 * the key on among themselves, so this is about keys that go from one process to another. Readers may come earlier than
 * others, because the turn of one reader is the turn of all that wait: `passedWriters` says how far. Who adopts a lock
 * goes on under it.
 */
export function orderOfWaiters(key: string, calls: readonly Call[], calm: Calm): Finding[] {
  const entries = entriesInto(calls);
  return entries.slice(1).flatMap((call, i): Finding[] => {
    const { at } = call.entered;
    const isOfParty = isPartyOf(call);
    const before = entries[i];
    if (call.reads || call.adopts !== undefined || (before !== undefined && isOfParty(before)))
      return [];
    const came = cameAt(call, calls);
    const others = calls.filter((other) => !isOfParty(other));
    const passed = others.flatMap((other) => {
      const since = queuedSince(other, calls, at, calm.bounds.queuedMs);
      if (since === undefined || since.at + calm.bounds.queuedMs >= came) return [];
      // Several permits may be given at once, in an order that nobody sees, or when somebody ahead gives up.
      const isGone = waitedUntil(since.call) <= at + calm.bounds.queuedMs;
      if (call.most !== undefined && isGone) return [];
      const from = Math.min(since.at, at - HEALING_MS) - since.call.leaseMs;
      if (!calm.ofServer(from, at) || !calm.ofKey(key, from, at)) return [];
      if (!calm.ofNodes(from, at)) return []; // they may not agree on who waits
      // Who gives up a connection asks anew, and may have lost its place.
      if (calm.lateAt(key, at) > 0) return [];
      const isOfThem = (process: string): boolean =>
        process === other.process || process === call.process;
      return calm.of(isOfThem, since.at, at) ? [since] : [];
    });
    return passed.slice(0, 1).map(({ call: first, at: since }) => {
      const text = `${call.name} got '${key}' ${Math.round(at - came)} ms after it came, before ${first.name}, which had waited for ${Math.round(at - since)} ms`;
      return { rule: 'who waits longer comes first', at, text };
    });
  });
}

/**
 * Since when, at the earliest, the process of a call has waited. It keeps its place if one of its callers gives up, and
 * takes that of its first caller when it releases the key and waits again.
 */
export function cameAt(call: Call, calls: readonly Call[]): number {
  const own = calls.filter(isPartyOf(call));
  const waits = own.map((other) => [other.calledAt.at, waitedUntil(other)] as const);
  let since = call.calledAt.at;
  for (const [from, until] of waits.sort(([a], [b]) => b - a)) {
    if (from <= since && until >= since) since = from;
  }
  return since;
}

/** Since when, at the latest, the process of a call waits in the mode of that call. */
export function queuedSince(
  ofParty: Call,
  calls: readonly Call[],
  at: number,
  queuedMs: number,
): { readonly call: Call; readonly at: number } | undefined {
  const own = calls.filter(isPartyOf(ofParty));
  // Of permits, a process asks for one after another: with each that it gets, it goes to the end of the queue.
  const served = own
    .filter(({ most, entered }) => most !== undefined && entered !== undefined)
    .map(({ entered }) => (entered as NonNullable<Call['entered']>).at)
    .filter((enteredAt) => enteredAt < at);
  // Of several keys, one may have had a permit unseen, and have given it back.
  const isUnseen = own.some(
    ({ most, keys, calledAt, endedAt = Infinity }) =>
      most !== undefined && keys.length > 1 && calledAt.at < at && endedAt > ofParty.calledAt.at,
  );
  // Or the key itself, shortly before it is told that it does not get the others.
  const isGivenBack = own.some(
    ({ keys, calledAt, entered, endedAt = Infinity }) =>
      keys.length > 1 &&
      entered === undefined &&
      calledAt.at < at &&
      endedAt >= at &&
      endedAt <= at + queuedMs,
  );
  if (isUnseen || isGivenBack) return undefined;
  const [first] = own
    .filter(
      (call) =>
        call.keys.length === 1 &&
        call.waitMs > 0 &&
        call.calledAt.at < at &&
        waitedUntil(call) > at,
    )
    .sort((a, b) => a.calledAt.at - b.calledAt.at);
  if (first === undefined) return undefined;
  return { call: first, at: Math.max(first.calledAt.at, ...served, ...lastLeft(own, at)) };
}

/** When calls have left their places, or the key. */
function lastLeft(calls: readonly Call[], before: number): number[] {
  return calls
    .map((call) => Math.min(call.freeAt, call.endedAt ?? Infinity))
    .filter((at) => at < before);
}
