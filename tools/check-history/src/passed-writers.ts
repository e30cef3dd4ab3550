import { type Call, entriesInto, waitedUntil } from './calls.js';
import { type Calm, HEALING_MS } from './calm.js';
import type { Finding } from './finding.js';
import { cameAt, queuedSince } from './order.js';

/**
 * Once somebody waits for a key alone, only those who read already, and one batch of readers, come before it: readers
 * that waited when it came, and all that wait when those have their turn.
 */
export function passedWriters(key: string, calls: readonly Call[], calm: Calm): Finding[] {
  const { queuedMs, freeMs } = calm.bounds;
  const writers = calls.filter(({ reads }) => !reads);
  const readers = calls.filter(({ reads }) => reads);
  return entriesInto(readers).flatMap((reader): Finding[] => {
    const { at } = reader.entered;
    const came = cameAt(reader, calls);
    const passed = writers.flatMap((writer) => {
      const since = queuedSince(writer, calls, at, queuedMs);
      if (since === undefined) return [];
      // One that gives up leaves its place a little before it is told so.
      const { entered, endedAt = Infinity } = since.call;
      if (entered === undefined && endedAt <= at + queuedMs) return [];
      // The turn of those that waited before it; one of them may have gone just then, or wait for other keys.
      const turns = readers
        .filter((it) => cameAt(it, calls) <= since.at + queuedMs && waitedUntil(it) > since.at)
        .map((it) => (it.keys.length > 1 ? Math.min(at, waitedUntil(it)) : waitedUntil(it)));
      const turnAt = Math.max(since.at, ...turns.filter((until) => until <= at + freeMs));
      if (came <= turnAt + queuedMs) return [];
      const from = Math.min(since.at, at - HEALING_MS) - since.call.leaseMs;
      const nobodys = calm.deadAt(at) + calm.lateAt(key, at);
      const isCalm = calm.ofKey(key, from, at) && calm.ofAll(from, at) && nobodys === 0;
      return isCalm ? [since] : [];
    });
    return passed.slice(0, 1).map(({ call: first, at: since }) => {
      const text = `${reader.name} read '${key}' ${Math.round(at - came)} ms after it came, before ${first.name}, which had waited for ${Math.round(at - since)} ms`;
      return { rule: 'readers do not pass a writer', at, text };
    });
  });
}
