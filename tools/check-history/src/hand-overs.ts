import { type Call, entriesInto } from './calls.js';
import type { Calm } from './calm.js';
import type { Finding } from './finding.js';

/** Fewer than these say nothing: a packet that is lost, and sent again, may delay several. */
const FEWEST = 12;

/**
 * A key that is free for a moment at each hand-over is served, but idle for most of the time. Half of the hand-overs
 * must be prompt.
 */
export function handOvers(calls: readonly Call[], calm: Calm): Finding[] {
  const keys = new Set(calls.flatMap((call) => call.keys));
  const idle = [...keys].flatMap((key) => {
    const ofKey = calls.filter((call) => call.keys.includes(key));
    return idleTimes(ofKey, calm.about(ofKey));
  });
  const median = [...idle].sort((a, b) => a - b)[Math.floor(idle.length / 2)] ?? 0;
  if (idle.length < FEWEST || median <= calm.bounds.handOverMs) return [];
  const at = Math.max(0, ...calls.map(({ endedAt = 0 }) => endedAt));
  const text = `half of ${idle.length} hand-overs took ${Math.round(median)} ms or more`;
  return [{ rule: 'a hand-over is prompt', at, text }];
}

/** For how long the key was free each time, beside somebody who waited for it alone. */
function idleTimes(calls: readonly Call[], calm: Calm): number[] {
  const entries = entriesInto(calls);
  // A call for several keys may have this one, unseen.
  const unseen = calls.filter((call) => call.keys.length > 1);
  return entries.slice(1).flatMap((next, i) => {
    const freeAt = Math.max(...entries.slice(0, i + 1).map((call) => call.freeAt));
    const { at } = next.entered;
    const isHandOver = next.keys.length === 1 && next.calledAt.at < freeAt && freeAt < at;
    const isUnseen = unseen.some(
      (call) => call.calledAt.at < at && (call.endedAt ?? Infinity) > freeAt,
    );
    const [key = ''] = next.keys;
    const from = freeAt - 2 * next.leaseMs;
    const isCalm = calm.ofAll(from, at) && calm.ofNodes(from, at) && calm.ofKey(key, from, at);
    return isHandOver && !isUnseen && isCalm ? [at - freeAt] : [];
  });
}
