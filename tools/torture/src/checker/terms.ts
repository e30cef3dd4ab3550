import { STALL_MS } from '../worker/heartbeat.js';
import { type Call, isSeveral } from './call.js';
import type { Facts } from './facts.js';
import type { Section } from './section.js';

/** Timers and round trips of a machine that does several things at once. */
const SLACK_MS = 100;
/** What is due happens in the next turn of the event loop, which may be late: short stalls are not written down. */
const NEXT_TURN_MS = 5 + STALL_MS;
/** What is noted of one deadline twice differs by no more than this. */
const NOTED_MS = 1;
/** The lease of a waiter that is handed the key, until it has confirmed it. */
const ACCEPTANCE_MS = 1_000;

/** What was promised to one hold: how long it lasts, that it is told of its end, and that its end has a reason. */
export function termViolations(facts: Facts): string[] {
  return holdsOf(facts.sections).flatMap((hold) => {
    const lostAt = Math.min(...hold.map(({ call, key }) => lossOf(call, key)));
    const [root] = hold as [OwnSection];
    return [
      ...hold.flatMap((section) => [...validAtStart(section, facts), ...untold(section, lostAt)]),
      ...rootTerms(root, hold, facts),
      ...lengthViolations(hold, facts),
    ];
  });
}

type OwnSection = Section & { readonly call: Call };

/** The sections of each hold. The first one acquired it; the others joined. */
function holdsOf(sections: readonly Section[]): OwnSection[][] {
  const holds = new Map<string, OwnSection[]>();
  for (const section of sections) {
    if (section.call === undefined) continue;
    const own = { ...section, call: section.call };
    const hold = holds.get(section.hold);
    if (hold === undefined) holds.set(section.hold, [own]);
    else hold.push(own);
  }
  return [...holds.values()];
}

function lossOf({ lost }: Call, key: string): number {
  return lost?.key === key ? lost.at : Infinity;
}

/**
 * No call is told that it holds a key whose lease has ended already. If the lease ends while the call is told, the call
 * is told of that as well.
 */
function validAtStart({ call, key, from, process }: OwnSection, { disturbances }: Facts): string[] {
  if (call.held === undefined || call.held.remainingMs > 0 || call.keys[0] !== key) return [];
  const lostAt = lossOf(call, key);
  if (lostAt >= from && lostAt < from + NEXT_TURN_MS) return [];
  const stalledMs = disturbances.stalledMs(process, { from: from - SLACK_MS, until: from + 1 });
  if (stalledMs > 0) return [];
  return [`${call.id} (${call.what}) was told that it holds ${named(call)} when that was over`];
}

/**
 * Every call that shares the hold is told of a loss, and no call joins the hold after that. A call for several keys may
 * have joined it before, unseen; if it gets the last one in the moment of the loss, it is told of both.
 */
function untold(section: OwnSection, lostAt: number): string[] {
  const { call, key, from } = section;
  const isTold = Math.max(from, lossOf(call, key)) < lostAt + NEXT_TURN_MS;
  if (from > lostAt && isSeveral(call) && isTold) return [];
  if (from > lostAt) {
    const afterMs = (section.from - lostAt).toFixed(1);
    return [`${section.id} joined a hold of ${section.key} ${afterMs} ms after its loss`];
  }
  if (section.until > lostAt + SLACK_MS) {
    return [`${section.id} was not told of the loss of ${section.key}, which others were told`];
  }
  return [];
}

function rootTerms(section: OwnSection, hold: readonly OwnSection[], facts: Facts): string[] {
  return [
    ...lossViolations(section, hold, facts),
    ...releaseViolations(section, facts),
    ...keptViolations(section, facts),
    ...inspectionViolations(section, facts),
  ];
}

/** A hold lasts no longer than was asked for, and not much shorter. */
function lengthViolations(hold: readonly OwnSection[], { disturbances }: Facts): string[] {
  const [section] = hold as readonly [OwnSection];
  const { call, from, process, id } = section;
  const violations: string[] = [];
  // The clock of a process that was suspended stood still.
  const suspendedMs = disturbances.suspendedMs(process, { from, until: section.until });
  const heldMs = section.until - from - suspendedMs;
  if (heldMs > call.maxHoldMs + SLACK_MS) {
    violations.push(
      `${id} had ${named(call)} for ${heldMs.toFixed(0)} ms, its maxHoldMs is ${call.maxHoldMs}`,
    );
  }
  if (call.renew || call.held === undefined) return violations;
  const wasProlonged = hold.some((joined) => joined.call.ensuredMs > 0);
  if (!wasProlonged && heldMs > call.leaseMs + SLACK_MS) {
    violations.push(
      `${id} had ${named(call)} for ${heldMs.toFixed(0)} ms, its fixed lease is ${call.leaseMs}`,
    );
  }
  if (isSeveral(call)) return violations; // the first key was held while the others were waited for
  const marginMs = Math.max(5, call.leaseMs / 100);
  const asked = { from: call.askedAt, until: from };
  const wasSlow =
    disturbances.wasRedisUnwell(process, asked, call.keys) ||
    disturbances.stalledMs(process, asked) > 0;
  const least = Math.min(
    call.maxHoldMs,
    wasSlow ? call.leaseMs / 2 : call.leaseMs - marginMs - SLACK_MS,
  );
  // It may have stood still between the decision and the moment in which the call was told.
  const lateMs = SLACK_MS + disturbances.stoodStillForMs(process, from);
  if (call.held.remainingMs > 0 && call.held.remainingMs < least - lateMs) {
    violations.push(
      `${id} asked for a fixed lease of ${call.leaseMs} ms of ${named(call)} and got ${call.held.remainingMs.toFixed(0)}`,
    );
  }
  return violations;
}

/** Every loss has a reason that is visible from outside. */
function lossViolations(section: OwnSection, hold: readonly OwnSection[], facts: Facts): string[] {
  const { call, from, key, id, lease, process } = section;
  const { lost } = call;
  if (lost === undefined || lost.key !== key || call.held?.remainingMs === 0) return [];
  const { disturbances, forgotten, history } = facts;
  const recently = { from: lost.at - lease.lengthMs - SLACK_MS, until: lost.at };
  const isExplained = (): boolean => {
    switch (lost.reason) {
      case 'max-hold': {
        // A process that stood still told the call of its hold that much later than the hold began.
        const before = { from: from - call.maxHoldMs, until: from };
        const lateMs = disturbances.stalledMs(process, before);
        return lost.at >= from - lateMs + call.maxHoldMs - SLACK_MS / 2;
      }
      case 'shutdown':
        return history.some(
          (entry) =>
            entry.kind === 'closing' &&
            entry.services.includes(call.service) &&
            entry.at <= lost.at,
        );
      case 'revoked':
      case 'deleted':
        return forgotten.mayBeForgotten(section, lost.at);
      case 'expired':
        return (
          (!call.renew && lost.at >= from + call.leaseMs / 2 - SLACK_MS) ||
          forgotten.mayBeForgotten(section, lost.at) ||
          disturbances.couldNotRenew(recently, key, lease.lengthMs) ||
          // It is renewed when a third of it is over, and an answer that has come counts, however late it is read.
          disturbances.stalledMs(process, recently) > lease.lengthMs / 2 ||
          disturbances.stalledMs(process, { from, until: lost.at }) > neverRenewedMs(hold) / 2
        );
      default:
        return false;
    }
  };
  if (isExplained()) return [];
  const afterMs = (lost.at - from).toFixed(0);
  return [`${id} lost ${key} (${lost.reason}) after ${afterMs} ms, which nothing explains`];
}

/** How long the lease was with which the hold began, if it was lost without having been renewed; or else Infinity. */
function neverRenewedMs(hold: readonly OwnSection[]): number {
  const [{ call, from }] = hold as readonly [OwnSection];
  const { remainingMs = Infinity } = call.held ?? {};
  const wasRenewed = hold.some((joined) => joined.call.validUntil > from + remainingMs + NOTED_MS);
  return wasRenewed ? Infinity : remainingMs;
}

/** `release()` is true only if the lease was ours until then. */
function releaseViolations(section: OwnSection, { disturbances, forgotten }: Facts): string[] {
  const { call, id, key, lease, process } = section;
  if (call.released?.answer !== true || call.endedAt === undefined) return [];
  const since = { from: call.endedAt - lease.lengthMs, until: call.released.at };
  if (disturbances.wasRedisUnwell(process, since, [key])) return []; // the answer to a repeated command cannot tell
  const wasTaken = disturbances.faults.some(
    ({ forgets, at, until }) =>
      typeof forgets === 'object' &&
      'key' in forgets &&
      forgets.key === key &&
      at > section.from &&
      until < (call.endedAt as number) - SLACK_MS,
  );
  if (!wasTaken || !forgotten.mayBeForgotten(section, call.endedAt)) return [];
  return [`the release of ${key} by ${id} was answered with true although it had been taken away`];
}

/** Nobody else gets the key during `holdAtLeastMs`, or after `maxHoldMs` while the work still runs. */
function keptViolations(section: OwnSection, facts: Facts): string[] {
  const { call, key, hold, id, lease, process } = section;
  const { disturbances, forgotten, sections } = facts;
  const isKept = call.holdAtLeastMs > 0 || lossOf(call, key) !== Infinity;
  if (!isKept || call.killedAt !== undefined) return [];
  const next = sections.find(
    (other) =>
      other.key === key &&
      other.hold !== hold &&
      other.from > section.from &&
      other.until > other.from,
  );
  if (next === undefined) return [];
  const between = { from: section.from, until: next.from };
  if (forgotten.mayConcern(key, between)) return [];
  // It already had the key, as one of several, and does not know that a fault took it away. That is covered by
  // exclusion.
  if (forgotten.excuses([next], { from: next.from, until: next.from })) return [];
  const violations: string[] = [];
  const keptUntil = section.from + call.holdAtLeastMs;
  // With several keys, each counts from its own beginning, which cannot be seen.
  const isReleased =
    call.released?.answer !== 'unknown' && call.lost === undefined && !isSeveral(call);
  const wasUnwell = disturbances.wasRedisUnwell(process, between, [key]);
  if (isReleased && next.from < keptUntil - SLACK_MS && !wasUnwell) {
    const early = (keptUntil - next.from).toFixed(0);
    violations.push(`${next.id} got ${key} ${early} ms before the end of holdAtLeastMs of ${id}`);
  }
  if (call.lost?.reason === 'max-hold' && call.lost.key === key) {
    const { at } = call.lost;
    const recently = { from: at - lease.lengthMs, until: next.from };
    const isHindered =
      disturbances.wasRedisUnwell(process, recently, [key]) ||
      disturbances.stalledMs(process, recently) > 0;
    // No hold begins with less than half of the short lease that a waiter is handed.
    const runsOut = isHindered ? at : section.from + Math.min(call.leaseMs, ACCEPTANCE_MS) * 0.45;
    if (next.from < Math.min(call.endedAt ?? Infinity, runsOut)) {
      violations.push(
        `${next.id} got ${key} ${(next.from - at).toFixed(1)} ms after maxHoldMs of ${id}, whose work still ran`,
      );
    }
  }
  return violations;
}

function inspectionViolations(section: OwnSection, { forgotten }: Facts): string[] {
  const { call, key, id } = section;
  return call.inspected
    .filter((entry) => entry.key === key && entry.found !== 'this process')
    .filter(({ at }) => section.until > at && !forgotten.mayBeForgotten(section, at))
    .map(({ found }) => `${id} held ${key} while inspect() said that ${found} has it`);
}

function named({ keys }: Call): string {
  return keys.join('+');
}
