import { groupBy } from '../collections.js';
import { STALL_MS } from '../worker/heartbeat.js';
import { type Call, isSeveral } from './call.js';
import type { Facts } from './facts.js';
import { areJoint, type OwnSection } from './section.js';

/** Timers and round trips of a machine that does several things at once. */
const SLACK_MS = 100;
/** What is due happens in the next turn of the event loop, which may be late: short stalls are not written down. */
const NEXT_TURN_MS = 5 + STALL_MS;
/** What is noted of one deadline twice differs by no more than this. */
const NOTED_MS = 1;
/** The lease of a waiter that is handed the key, until it has confirmed it. */
const ACCEPTANCE_MS = 1_000;

/** The sections of a hold. The first one acquired it; the others joined. */
type Hold = readonly [root: OwnSection, ...joined: OwnSection[]];

/** What was promised to one hold: how long it lasts, that it is told of its end, and that its end has a reason. */
export function* termViolations(facts: Facts): Iterable<string> {
  for (const hold of groupBy(facts.own, (section) => section.hold).values() as Iterable<Hold>) {
    const lostAt = Math.min(...hold.map(({ call, key }) => lossOf(call, key)));
    for (const section of hold) {
      yield* validAtStart(section, facts);
      yield* toldOfEnd(section, facts);
      yield* told(section, lostAt, facts);
    }
    const [root] = hold;
    yield* lost(hold, facts);
    yield* released(root, facts);
    yield* kept(root, facts);
    yield* inspected(root, facts);
    yield* longEnough(hold, facts);
  }
}

/** No call acts after the end of its hold, or works on after it without having been told of it. */
function* toldOfEnd({ call, id, key, process }: OwnSection, facts: Facts): Iterable<string> {
  const { validUntil, actedAt, ended, lost: loss } = call;
  if (call.keys[0] !== key || validUntil === -Infinity) return;
  const after = (at: number): number => at - Math.min(validUntil, loss?.at ?? Infinity);
  if (after(actedAt) > NOTED_MS) {
    yield `${id} acted ${after(actedAt).toFixed(0)} ms after the end of its hold of ${named(call)}`;
  }
  if (loss !== undefined || ended === undefined) return;
  const since = { from: validUntil, until: ended.at };
  const workedMs = after(ended.at) - facts.disturbances.unawareMs(process, since, [key]);
  if (workedMs <= SLACK_MS) return;
  yield `${id} worked for ${workedMs.toFixed(0)} ms after the end of its hold of ${named(call)}, and was never told of it`;
}

function lossOf({ lost: loss }: Call, key: string): number {
  return loss?.key === key ? loss.at : Infinity;
}

/**
 * No call is told that it holds a key whose lease has ended already. If the lease ends while the call is told, the call
 * is told of that as well.
 */
function* validAtStart(section: OwnSection, { disturbances }: Facts): Iterable<string> {
  const { call, key, from, process } = section;
  if (call.held === undefined || call.held.remainingMs > 0 || call.keys[0] !== key) return;
  const lostAt = lossOf(call, key);
  if (lostAt >= from && lostAt < from + NEXT_TURN_MS) return;
  if (disturbances.stalledMs(process, { from: from - SLACK_MS, until: from + 1 }) > 0) return;
  yield `${call.id} (${call.what}) was told that it holds ${named(call)} when that was over`;
}

/**
 * Every call that shares the hold is told of a loss, and no call joins the hold after that. A call for several keys may
 * have joined it before, unseen; if it gets the last one in the moment of the loss, it is told of both. So is one whose
 * process stood still between joining and being told of that.
 */
function* told(
  { call, id, key, from, until, process }: OwnSection,
  lostAt: number,
  { disturbances }: Facts,
): Iterable<string> {
  const isTold = Math.max(from, lossOf(call, key)) < lostAt + NEXT_TURN_MS;
  const justBefore = { from: from - SLACK_MS, until: from + 1 };
  const mayHaveJoined = isSeveral(call) || disturbances.stalledMs(process, justBefore) > 0;
  if (from > lostAt && !(mayHaveJoined && isTold)) {
    yield `${id} joined a hold of ${key} ${(from - lostAt).toFixed(1)} ms after its loss`;
  } else if (from <= lostAt && until > lostAt + SLACK_MS) {
    yield `${id} was not told of the loss of ${key}, which others were told`;
  }
}

/** A hold lasts no longer than was asked for, and not much shorter. */
function* longEnough(hold: Hold, { disturbances }: Facts): Iterable<string> {
  const [{ call, from, process, id, until }] = hold;
  const { maxHoldMs, leaseMs, keys } = call;
  const { remainingMs = 0 } = call.held ?? {};
  // The clock of a process that was suspended stood still.
  const heldMs = until - from - disturbances.suspendedMs(process, { from, until });
  const had = `${id} had ${named(call)} for ${heldMs.toFixed(0)} ms`;
  if (heldMs > maxHoldMs + SLACK_MS) yield `${had}, its maxHoldMs is ${maxHoldMs}`;
  if (call.renew) return;
  const wasProlonged = hold.some((joined) => joined.call.ensuredMs > 0);
  if (!wasProlonged && heldMs > leaseMs + SLACK_MS) yield `${had}, its fixed lease is ${leaseMs}`;
  if (isSeveral(call)) return; // the first key was held while the others were waited for
  const asked = { from: call.askedAt, until: from };
  const wasSlow =
    disturbances.wasRedisUnwell(process, asked, keys) || disturbances.stalledMs(process, asked) > 0;
  const marginMs = Math.max(5, leaseMs / 100) + SLACK_MS;
  const leastMs = Math.min(maxHoldMs, wasSlow ? leaseMs / 2 : leaseMs - marginMs);
  // It may have stood still between the decision and the moment in which the call was told.
  const lateMs = SLACK_MS + disturbances.stoodStillForMs(process, from);
  if (remainingMs > 0 && remainingMs < leastMs - lateMs) {
    yield `${id} asked for a fixed lease of ${leaseMs} ms of ${named(call)} and got ${remainingMs.toFixed(0)}`;
  }
}

/** Every loss has a reason that is visible from outside. */
function* lost(hold: Hold, facts: Facts): Iterable<string> {
  const [{ call, key, id, from }] = hold;
  const { lost: loss, held } = call;
  if (loss?.key !== key || held?.remainingMs === 0 || isExplained(loss, hold, facts)) return;
  const afterMs = (loss.at - from).toFixed(0);
  yield `${id} lost ${key} (${loss.reason}) after ${afterMs} ms, which nothing explains`;
}

function isExplained({ at, reason }: NonNullable<Call['lost']>, hold: Hold, facts: Facts): boolean {
  const [root] = hold;
  const { call, from, key, lease, process } = root;
  const { disturbances, forgotten } = facts;
  const recently = { from: at - lease.lengthMs - SLACK_MS, until: at };
  switch (reason) {
    case 'max-hold': {
      // A process that stood still told the call of its hold that much later than the hold began.
      const before = { from: from - call.maxHoldMs, until: from };
      const lateMs = disturbances.stalledMs(process, before);
      return at >= from - lateMs + call.maxHoldMs - SLACK_MS / 2;
    }
    case 'shutdown':
      return facts.wasClosing(call.service, at);
    case 'revoked':
    case 'deleted':
      return forgotten.mayBeForgotten(root, at);
    case 'expired':
      return (
        (!call.renew && at >= from + call.leaseMs / 2 - SLACK_MS) ||
        forgotten.mayBeForgotten(root, at) ||
        disturbances.couldNotRenew(recently, key, lease.lengthMs) ||
        // It is renewed when a third of it is over, and an answer that has come counts, however late it is read.
        disturbances.stalledMs(process, recently) > lease.lengthMs / 2 ||
        disturbances.stalledMs(process, { from, until: at }) > neverRenewedMs(hold) / 2
      );
    default:
      return false;
  }
}

/** How long the lease was with which the hold began, if it was lost without having been renewed; or else Infinity. */
function neverRenewedMs(hold: Hold): number {
  const [{ call, from }] = hold;
  const { remainingMs = Infinity } = call.held ?? {};
  const wasRenewed = hold.some((joined) => joined.call.validUntil > from + remainingMs + NOTED_MS);
  return wasRenewed ? Infinity : remainingMs;
}

/** `release()` is true only if the lease was ours until then. */
function* released(section: OwnSection, { disturbances, forgotten }: Facts): Iterable<string> {
  const { call, id, key, lease, process, from } = section;
  const { released: release, ended } = call;
  if (release?.answer !== true || ended === undefined) return;
  const since = { from: ended.at - lease.lengthMs, until: release.at };
  if (disturbances.wasRedisUnwell(process, since, [key])) return; // the answer to a repeated command cannot tell
  const wasTaken = disturbances.faults.some(({ forgets, at, until }) => {
    const isOfKey = typeof forgets === 'object' && 'key' in forgets && forgets.key === key;
    return isOfKey && at > from && until < ended.at - SLACK_MS;
  });
  if (!wasTaken || !forgotten.mayBeForgotten(section, ended.at)) return;
  yield `the release of ${key} by ${id} was answered with true although it had been taken away`;
}

/** Nobody else gets the key during `holdAtLeastMs`, or after `maxHoldMs` while the work still runs. */
function* kept(section: OwnSection, facts: Facts): Iterable<string> {
  const { call, key, hold, id, lease, process, from, until } = section;
  const { disturbances, forgotten, sections } = facts;
  const isKept = call.holdAtLeastMs > 0 || lossOf(call, key) !== Infinity;
  if (!isKept || call.killedAt !== undefined) return;
  const next = sections.find(
    (other) =>
      other.key === key &&
      other.hold !== hold &&
      !areJoint(other, section) &&
      other.from > from &&
      other.until > other.from,
  );
  if (next === undefined) return;
  const between = { from, until: next.from };
  if (forgotten.mayConcern(key, between)) return;
  // It already had the key, as one of several, and does not know that a fault took it away. That is covered by
  // exclusion.
  if (forgotten.excuses([next], { from: next.from, until: next.from })) return;
  const earlyMs = from + call.holdAtLeastMs - next.from;
  // With several keys, each counts from its own beginning, which cannot be seen.
  const isReleased =
    call.released?.answer !== 'unknown' && call.lost === undefined && !isSeveral(call);
  if (isReleased && earlyMs > SLACK_MS && !disturbances.wasRedisUnwell(process, between, [key])) {
    yield `${next.id} got ${key} ${earlyMs.toFixed(0)} ms before the end of holdAtLeastMs of ${id}`;
  }
  if (call.lost?.reason !== 'max-hold' || call.lost.key !== key) return;
  const { at } = call.lost;
  const recently = { from: at - lease.lengthMs, until: next.from };
  const isHindered =
    disturbances.wasRedisUnwell(process, recently, [key]) ||
    disturbances.stalledMs(process, recently) > 0;
  // No hold begins with less than half of the short lease that a waiter is handed.
  // A process that stood still is told late that it is over.
  const runsOut = isHindered ? until : from + Math.min(call.leaseMs, ACCEPTANCE_MS) * 0.45;
  if (next.from < Math.min(call.ended?.at ?? Infinity, runsOut)) {
    yield `${next.id} got ${key} ${(next.from - at).toFixed(1)} ms after maxHoldMs of ${id}, whose work still ran`;
  }
}

function* inspected(section: OwnSection, { forgotten }: Facts): Iterable<string> {
  const { call, key, id, until } = section;
  for (const { key: asked, found, at } of call.inspections) {
    if (asked !== key || found === 'this process' || until <= at) continue;
    if (forgotten.mayBeForgotten(section, at)) continue;
    yield `${id} held ${key} while inspect() said that ${found} has it`;
  }
}

function named({ keys }: Call): string {
  return keys.join('+');
}
