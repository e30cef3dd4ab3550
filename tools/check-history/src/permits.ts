import { type Call, type Entered, waitedUntil } from './calls.js';
import { type Calm, HEALING_MS } from './calm.js';
import type { Finding } from './finding.js';
import { DEAD_GRANT_MS } from './free-keys.js';

/** A permit may have to be confirmed, and that asked for once more, if the server has forgotten the script. */
const AGAIN_MS = 100;

/**
 * Those that have permits of a key at the same time have no more of them than there are, and no two have the same slot.
 * If they are told different numbers, the largest counts, because nobody sees in which order they were let in.
 *
 * @param present those that still act after this one has entered
 */
export function tooMuchHeld(key: string, later: Entered, present: readonly Call[]): Finding[] {
  if (later.most === undefined) return [];
  const { at } = later.entered;
  const others = present.filter(({ most }) => most !== undefined);
  const findings: Finding[] = [];
  const most = Math.max(later.most, ...others.map((call) => call.most ?? 0));
  const weight = others.reduce((sum, call) => sum + call.weight, later.weight);
  if (weight > most) {
    const beside = others.map(({ name }) => name).join(', ');
    const text = `${later.name} entered '${key}' beside ${beside}, which makes ${weight} of ${most} permits`;
    findings.push({ rule: 'too many hold one key', at, text });
  }
  const slot = later.slots[key];
  const sameSlot = others.find(({ slots }) => slots[key] === slot);
  if (sameSlot !== undefined) {
    const text = `${later.name} entered '${key}' with slot ${slot}, which ${sameSlot.name} had`;
    findings.push({ rule: 'two have one slot', at, text });
  }
  if (slot === undefined || slot < 0 || slot >= most) {
    const text = `${later.name} entered '${key}' with slot ${slot} of ${most}`;
    findings.push({ rule: 'two have one slot', at, text });
  }
  return findings;
}

/**
 * Permits are not left idle beside those that wait, each of which would fit: whoever is next must get one. Judged while
 * nobody wants the key otherwise, and nobody may have it unseen, as one of several keys.
 */
export function idlePermits(key: string, calls: readonly Call[], calm: Calm): Finding[] {
  if (calls.every(({ most }) => most === undefined)) return [];
  const leaseMs = Math.max(0, ...calls.map((call) => call.leaseMs));
  const pausedMs = Math.max(0, ...calls.map((call) => call.pausedMs));
  const entries = new Set(calls.map(({ entered }) => entered?.at));
  const ends = calls.flatMap((call) => [call.calledAt.at, waitedUntil(call), call.freeAt]);
  const moments = [...new Set(ends)].filter(Number.isFinite).sort((a, b) => a - b);
  let since = Infinity;
  return moments.flatMap((at, i): Finding[] => {
    const until = moments[i + 1] ?? at;
    const waiting = calls.filter((call) => call.calledAt.at <= at && waitedUntil(call) > at);
    if (!isRoomFor(waiting, calls, at)) since = Infinity;
    else if (since === Infinity || entries.has(at)) since = at;
    if (since === Infinity || waiting.length === 0) return [];
    const from = Math.min(...waiting.map((call) => call.calledAt.at)) - leaseMs - HEALING_MS;
    const absentMs = calm.ofAll(from, until) ? 0 : leaseMs + pausedMs;
    const limitMs = calm.bounds.freeMs + AGAIN_MS + calm.deadAt(until) * DEAD_GRANT_MS + absentMs;
    if (until - since <= limitMs || !calm.ofServer(from, until)) return [];
    if (!calm.ofKey(key, from, until)) return [];
    const names = waiting.map(({ name }) => name).join(', ');
    const freeMs = Math.round(until - since);
    const text = `${names} waited for '${key}', of which permits were free for ${freeMs} ms`;
    since = until; // that has been reported
    return [{ rule: 'no permit is idle', at: until, text }];
  });
}

/** Whether any of these would fit in beside those that have the key. */
function isRoomFor(waiting: readonly Call[], calls: readonly Call[], at: number): boolean {
  if (waiting.length === 0) return false;
  if (waiting.some(({ most, keys }) => most === undefined || keys.length > 1)) return false;
  const inside = calls.filter(
    ({ entered, freeAt }) => entered !== undefined && entered.at <= at && freeAt > at,
  );
  if (inside.some(({ most }) => most === undefined)) return false;
  const taken = inside.reduce((sum, { weight }) => sum + weight, 0);
  return waiting.every(({ weight, most = 0 }) => taken + weight <= most);
}
