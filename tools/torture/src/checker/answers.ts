import {
  around,
  type Call,
  isSeveral,
  leaseLengthMs,
  readsKey,
  settledAt,
  waitedUntil,
} from './call.js';
import type { Facts } from './facts.js';
import { type Interval, overlaps } from './intervals.js';
import { occupations } from './occupation.js';

/** How long after the end of its wait a call may wait for an answer that is on its way. */
const GRACE_MS = 1_000;
/** For an error message, the holder of the key is looked up, and machines are slow. */
const SLACK_MS = 600;
/** How long an abort may take to be seen. */
const ABORT_MS = 250;
/** When Redis has been away for this long, no call waits for it any more. The option `failFastAfterMs`. */
const FAIL_FAST_MS = 2_000;
/** Calls within this time left, or were sent away, at about the same time. */
const AT_ONCE_MS = 150;
/** What the message says if a process gets leases too late, and the reason may be its own. */
const STOOD_STILL = 'or this process stood still';

/** How and when a call ended: it must end in time, and with an error that the history explains. */
export function* answerViolations(facts: Facts): Iterable<string> {
  const occupied = occupations(facts);
  for (const call of facts.calls.values()) {
    const wrong = late(call, facts) ?? unseenAbort(call, facts) ?? refusal(call, facts, occupied);
    if (wrong !== undefined) yield `${call.id} (${call.what}) for ${call.keys.join('+')} ${wrong}`;
  }
}

/** Within `waitMs` and one second more, whatever Redis does, and never without an answer. */
function late(call: Call, { disturbances }: Facts): string | undefined {
  const at = settledAt(call);
  const { killedAt, askedAt, waitMs, process } = call;
  if (at === undefined) return killedAt === undefined ? 'was never answered' : undefined;
  const stalledMs = disturbances.stalledMs(process, { from: askedAt, until: at });
  if (at - askedAt <= waitMs + GRACE_MS + SLACK_MS + stalledMs) return undefined;
  return `was answered after ${(at - askedAt).toFixed(0)} ms, its waitMs is ${waitMs}`;
}

function unseenAbort(call: Call, { disturbances }: Facts): string | undefined {
  const at = settledAt(call);
  const { aborted, process } = call;
  if (aborted === undefined || at === undefined) return undefined;
  const stalledMs = disturbances.stalledMs(process, { from: aborted.at, until: at });
  const afterMs = at - aborted.at - stalledMs;
  if (afterMs <= ABORT_MS) return undefined;
  return `did not see the abort of its signal: answered ${afterMs.toFixed(0)} ms later`;
}

function refusal(call: Call, facts: Facts, occupied: Occupied): string | undefined {
  if (call.refused === undefined) return undefined;
  const { at, code, message } = call.refused;
  switch (code) {
    case 'LOCK_NOT_ACQUIRED':
      if (call.waitMs > 0 || isOccupied(call, facts, occupied)) return undefined;
      return 'was refused as busy although nobody had it';
    case 'LOCK_ABORTED':
      if (call.aborted !== undefined || facts.wasClosing(call.service, at)) return undefined;
      return 'was aborted although neither its signal nor its application ended it';
    case 'LOCK_STORE_FAILED':
      return failure(call, facts);
    case 'LOCK_LOST':
      if (isSeveral(call)) return undefined;
      break;
    case 'LOCK_DEADLOCK':
      if (isWaitedForAt(call, at, facts)) return undefined;
      break;
    case 'LOCK_NOT_ADOPTED':
      if (mayBeGone(call, at, facts)) return undefined;
      break;
    case 'LOCK_CONFIG_INVALID':
      if (call.keys.some((key) => wouldWaitForItself(call, key, facts))) return undefined;
      // Waiting without limit for a sibling that may wait for us is refused. The tool does it on purpose.
      if (call.what === 'crossed-branch') return undefined;
  }
  return `was refused with ${code}: ${message}`;
}

/** Whether a call around it reads the key, or has a permit of it, and it wants more. */
function wouldWaitForItself(call: Call, key: string, { calls }: Facts): boolean {
  for (let at = around(call, calls); at !== undefined; at = around(at, calls)) {
    if (readsKey(at, key) && !readsKey(call, key)) return true;
    if (at.permits?.[key] === undefined) continue;
    if (call.permits?.[key] === undefined || (call.weight ?? 1) > (at.weight ?? 1)) return true;
  }
  return false;
}

/** Whether the lock that it wants to adopt may be another one's by then, or free. */
function mayBeGone(call: Call, at: number, { calls, disturbances, forgotten }: Facts): boolean {
  const from = calls.get(call.adopts ?? '');
  if (from?.detaches === undefined) return false;
  const { at: since, ms } = from.detaches;
  const interval = { from: since, until: at };
  return (
    at >= since + ms * 0.99 - 5 ||
    call.keys.some((key) => forgotten.mayConcern(key, interval)) ||
    call.keys.some((key) => disturbances.isKeyDisturbed(key, at)) ||
    [...calls.values()].some(
      (other) => other !== call && other.adopts === call.adopts && other.askedAt <= at,
    )
  );
}

/** Whether somebody waits then for a key that a call around it has. */
function isWaitedForAt(call: Call, at: number, { calls }: Facts): boolean {
  const own = new Set<Call>([call]);
  for (let it = around(call, calls); it !== undefined; it = around(it, calls)) own.add(it);
  // A call for several keys may have some of them while it waits for the others.
  const held = [...own].flatMap((it) =>
    it.held === undefined && isSeveral(it) ? it.keys : Object.keys(it.held?.tokens ?? {}),
  );
  return [...calls.values()].some(
    (other) =>
      !own.has(other) &&
      other.askedAt <= at &&
      waitedUntil(other) >= at &&
      other.keys.some((key) => held.includes(key)),
  );
}

/** The store fails only if Redis was in trouble, and only at the end of the wait or if Redis has been away for long. */
function failure(call: Call, { disturbances }: Facts): string | undefined {
  const { process, keys, askedAt, waitMs, leaseMs } = call;
  const { at = 0, message = '' } = call.refused ?? {};
  const stalledMs = disturbances.stalledMs(process, { from: at - FAIL_FAST_MS, until: at });
  // A process that is hardly given a processor gets each lease too late, and says so.
  if (message.includes(STOOD_STILL) && stalledMs > leaseMs / 2) return undefined;
  // Otherwise, that it stood still explains nothing: the answer has come meanwhile.
  if (!disturbances.wasRedisUnwell(process, { from: at - AT_ONCE_MS, until: at }, keys)) {
    return `failed although Redis was well: ${message}`;
  }
  const hadTime = at - askedAt >= waitMs - 1;
  if (hadTime || disturbances.wasAwayFor(process, FAIL_FAST_MS, at, keys)) return undefined;
  // Nor does it reach a server.
  if (stalledMs > FAIL_FAST_MS / 2) return undefined;
  return `failed after ${(at - askedAt).toFixed(0)} ms of its waitMs ${waitMs}: ${message}`;
}

type Occupied = ReturnType<typeof occupations>;

/** Whether somebody had the key, may have had it, or was to get it first. Those who read do not keep each other out. */
function isOccupied(call: Call, facts: Facts, occupied: Occupied): boolean {
  const tried = { from: call.askedAt - AT_ONCE_MS, until: (call.refused?.at ?? 0) + AT_ONCE_MS };
  const others = [...facts.calls.values()].filter((other) => other !== call);
  return call.keys.some((key) => {
    const isKeptOutBy = (reads: boolean): boolean => !(reads && readsKey(call, key));
    return (
      occupied.get(key)?.some((time) => isKeptOutBy(time.reads) && overlaps(time, tried)) ||
      facts.disturbances.isKeyDisturbed(key, call.askedAt) ||
      others.some(
        (other) =>
          other.keys.includes(key) &&
          isKeptOutBy(readsKey(other, key)) &&
          overlaps(mayOccupy(other, call, facts), tried),
      )
    );
  });
}

const NEVER: Interval = { from: Infinity, until: -Infinity };

/** The times at which a call may keep others from a key, apart from its own hold. */
function mayOccupy(call: Call, tried: Call, { disturbances }: Facts): Interval {
  const from = call.askedAt;
  const { released, refused, killedAt } = call;
  if (released !== undefined) {
    return { from, until: released.at + call.lingerMs }; // an unused lease is kept for a moment
  }
  if (killedAt !== undefined) return { from, until: killedAt + leaseLengthMs(call) };
  if (refused === undefined) return { from, until: Infinity };
  switch (refused.code) {
    case 'LOCK_NOT_ACQUIRED':
      // A single try that fails disturbs nobody except calls of its own service that come while it is under way.
      if (call.waitMs === 0 && call.service !== tried.service) return NEVER;
      return { from, until: refused.at };
    case 'LOCK_STORE_FAILED': // what it may have acquired is taken back, or runs out
      return { from, until: refused.at + leaseLengthMs(call) };
    default: {
      // What it had got of several keys is given back when its process goes on.
      const soon = { from: refused.at, until: refused.at + AT_ONCE_MS };
      return { from, until: refused.at + disturbances.stalledMs(call.process, soon) };
    }
  }
}
