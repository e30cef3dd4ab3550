import { type Call, leaseLastsUntil } from './calls.js';
import { type Calm, HEALING_MS, type Span } from './calm.js';
import type { Finding } from './finding.js';

/**
 * While nothing disturbs the server or the process, no call fails, and none is told that a key is busy which nobody has
 * or waits for. A full memory takes nothing from who holds a key already, or has a place in the queue behind a holder,
 * whose release leaves room. A key that is only kept becomes free without one.
 */
export function failures(calls: readonly Call[], calm: Calm): Finding[] {
  return calls.flatMap((call): Finding[] => {
    const { name, process, keys, calledAt, endedAt, leaseMs, outcome, error = '' } = call;
    if (endedAt === undefined || calledAt.at >= endedAt) return [];
    const from = calledAt.at - leaseMs - HEALING_MS;
    const lack = calm.lackIn(from, endedAt);
    const isCalm =
      calm.ofServerDespiteLack(from, endedAt) &&
      (lack === undefined || (isBefore(call, lack, calm) && !isBehindKept(call, lack, calls))) &&
      calm.of((other) => other === process, from, endedAt + HEALING_MS) &&
      keys.every((key) => calm.ofKey(key, from, endedAt));
    if (!isCalm) return [];
    if (outcome === 'failed' && !calm.bounds.mayFail && !isOvertaken(call, calls)) {
      const text = `${name} failed, and nothing was disturbed: ${error}`;
      return [{ rule: 'no call fails without a reason', at: endedAt, text }];
    }
    const others = calls.filter(
      (other) =>
        other !== call &&
        !(call.reads && other.reads) &&
        other.keys.some((key) => keys.includes(key)) &&
        other.calledAt.at < endedAt &&
        freeAtLatest(other, calm) + HEALING_MS > calledAt.at,
    );
    if (outcome !== 'busy' || (others.length > 0 && !haveRoom([call, ...others]))) return [];
    // It was given to a call that is over, whose process gives it back when it hears of it.
    if (keys.some((key) => calm.lateAt(key, endedAt) > 0)) return [];
    const text = `${name} was told that ${keys.join(', ')} is busy, and nobody had it`;
    return [{ rule: 'a free key is served', at: endedAt, text }];
  });
}

/**
 * Whether another call of its process has tried to adopt the same lock at the same moment: while the server does not
 * know the script, one may overtake the other, which then is not sent again.
 */
function isOvertaken(
  { adopts, process, name, calledAt, endedAt }: Call,
  calls: readonly Call[],
): boolean {
  return (
    adopts !== undefined &&
    calls.some(
      (other) =>
        other.name !== name &&
        other.process === process &&
        other.adopts === adopts &&
        other.calledAt.at < (endedAt ?? Infinity) &&
        (other.endedAt ?? Infinity) >= calledAt.at,
    )
  );
}

/** Whether these, which all want permits, could have them at the same time. */
function haveRoom(calls: readonly Call[]): boolean {
  const keys = new Set(calls.flatMap((call) => call.keys));
  return [...keys].every((key) => {
    const wanted = calls.filter((call) => call.keys.includes(key));
    const weight = wanted.reduce((sum, call) => sum + call.weight, 0);
    return wanted.every(({ permits }) => weight <= (permits[key] ?? 0));
  });
}

/** A process may keep a lease for its next call (`lingerMs`), and die, or stand still, with it. */
function freeAtLatest(call: Call, calm: Calm): number {
  const { process, freeAt, endedAt = Infinity } = call;
  const stoppedAt = calm.stopOf(process, endedAt, endedAt + HEALING_MS);
  const leftUntil = stoppedAt === undefined ? endedAt : leaseLastsUntil(call, stoppedAt);
  return Math.max(freeAt, leftUntil);
}

/** Whether a call waits for a key that nobody holds any more, which becomes free while the memory is full. */
function isBehindKept(
  { entered, keys, calledAt }: Call,
  lack: Span,
  calls: readonly Call[],
): boolean {
  if (entered !== undefined) return false;
  return calls.some(
    ({ keys: others, endedAt = Infinity, freeAt }) =>
      others.some((key) => keys.includes(key)) &&
      freeAt > Math.max(endedAt, calledAt.at) &&
      freeAt > lack.from,
  );
}

/** Whether a call has held its key, or has had its place behind somebody who lives, before the memory was full. */
function isBefore(
  { entered, calledAt, endedAt = Infinity }: Call,
  lack: Span,
  calm: Calm,
): boolean {
  if (entered !== undefined) return entered.at + HEALING_MS < lack.from;
  const { at } = calledAt;
  return at + HEALING_MS < lack.from && calm.of(() => true, at - HEALING_MS, endedAt);
}
