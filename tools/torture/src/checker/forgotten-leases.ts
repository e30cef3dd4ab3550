import { type Fault, type Promoted, SLOW_ANSWERS } from '../history/entry.js';
import { isSeveral } from './call.js';
import { type Disturbances, WAKING_MS } from './disturbances.js';
import { type Interval, overlaps } from './intervals.js';
import type { Section } from './section.js';

/** The longest pause before reconnecting. After that, all leases are renewed at once. */
const RECONNECT_MS = 1_000;
/** Allows for a round trip, and for the rounding of timers. */
const ROUND_TRIP_MS = 250;
/** An answer that is on its way arrives within this time, unless something holds it up. */
const ANSWER_MS = 80;
/** Redis counts whole milliseconds. */
const ROUNDING_MS = 5;
/** How long a holder may take to learn of what was forgotten, except at a renewal, which comes with its lease. */
const NOTICE_MS: Partial<Record<NonNullable<Fault['notice']>, number>> = {
  message: 1_000, // so long, a key that an operator took away stays taken
  reconnect: RECONNECT_MS + ROUND_TRIP_MS,
  waking: WAKING_MS,
};

/**
 * Leases that Redis forgot or gave up before their holders could know it. Only these may overlap with others, and only
 * until the holder must have noticed.
 */
export class ForgottenLeases {
  readonly #disturbances: Disturbances;

  constructor(disturbances: Disturbances) {
    this.#disturbances = disturbances;
  }

  /** Whether a fault explains that one of these holders had the key at this time beside the other one. */
  excuses(holders: readonly Section[], { from, until }: Interval): boolean {
    return holders.some((section) =>
      this.#concerning(section).some(
        (fault) =>
          until <= this.#noticedBy(section, fault, until) &&
          holders.every((holder) => forgottenFrom(holder, fault) <= from),
      ),
    );
  }

  /** Whether a fault may have taken the lease away before `at`, when its holder was told that it is lost. */
  mayBeForgotten(section: Section, at: number): boolean {
    return this.#concerning(section, at).some((fault) => forgottenFrom(section, fault) <= at);
  }

  /** Whether the section existed at a time at which leases were forgotten. */
  concerns(section: Section): boolean {
    return this.#concerning(section).some(
      (fault) => forgottenFrom(section, fault) <= section.until,
    );
  }

  /** Whether anything about the key was forgotten in the interval, be it a lease or what is kept after one. */
  mayConcern(key: string, interval: Interval): boolean {
    return this.#disturbances.faults.some(
      (fault) => forgets(fault, key) && overlaps(interval, { from: fault.at, until: fault.until }),
    );
  }

  /** Faults that forgot leases of this key when this lease may have existed. @param until its end at the latest */
  #concerning(section: Section, until = section.until): Fault[] {
    return this.#disturbances.faults.filter(
      (fault) =>
        forgets(fault, section.key, section.process) &&
        fault.at <= until &&
        this.#existedAt(section, fault),
    );
  }

  /** A grant from before the fault may have been noted after it, if its reply or its process was slow. */
  #existedAt({ process, lease }: Section, fault: Fault): boolean {
    const { forgetsUntil = fault.until } = fault;
    if (lease.from <= forgetsUntil) return true;
    const since = { from: forgetsUntil, until: lease.from };
    const isSlow = this.#disturbances.faults.some(
      ({ name, at, until }) => name === SLOW_ANSWERS && overlaps({ from: at, until }, since),
    );
    const isWoken = promotionOf(fault) && this.#disturbances.stoodStillAt(process, forgetsUntil); // it hears of the new master last
    const lateMs = ANSWER_MS + (isSlow || isWoken ? ROUND_TRIP_MS : 0);
    return lease.from <= forgetsUntil + lateMs + this.#disturbances.stalledMs(process, since);
  }

  /** Its own deadline ends every lease that cannot be renewed any more. */
  #noticedBy(section: Section, fault: Fault, at: number): number {
    const { key, process, lease, isRenewed } = section;
    const since = { from: fault.notice === 'waking' ? fault.until : fault.at, until: at };
    const hinderedMs = this.#disturbances.hinderedMs(process, since, [key]);
    // A master that was replaced goes on for a while, for a process that could not hear of it because it stood still.
    const prolongedMs = promotionOf(fault) ? hinderedMs : 0;
    const deadline = fault.until + prolongedMs + lease.lengthMs + ROUND_TRIP_MS;
    if (!isRenewed) return deadline;
    const reconnectMs = this.#disturbances.wasRedisInTrouble(since, [key]) ? RECONNECT_MS : 0;
    // A message that cannot arrive is not repeated: the next renewal tells the same.
    const isUnheard = fault.notice === 'message' && this.#wasSilent(process, key, fault);
    const notice = isUnheard ? 'renewal' : (fault.notice ?? 'renewal');
    const noticeMs = NOTICE_MS[notice] ?? lease.lengthMs / 3 + ROUND_TRIP_MS;
    return Math.min(deadline, fault.until + noticeMs + reconnectMs + hinderedMs);
  }

  /** Whether, at some time of the interval, a message about the key could not reach the process. */
  #wasSilent(process: string, key: string, { at, until }: Fault): boolean {
    return this.#disturbances.faults.some(({ silences, at: from, until: end }) => {
      if (silences === undefined || from > until) return false;
      if (silences !== 'all' && !silences.serverOf.includes(key)) return false;
      // It has to be connected, and subscribed, again.
      const since = { from: end, until: at };
      const backMs = RECONNECT_MS + ROUND_TRIP_MS;
      return at <= end + backMs + this.#disturbances.hinderedMs(process, since, [key]);
    });
  }
}

/** @param process if it is undefined, the leases of all processes are meant */
function forgets({ forgets: what }: Fault, key: string, process?: string): boolean {
  if (what === undefined || what === 'all') return what === 'all';
  if ('process' in what) return process === undefined || what.process === process;
  return 'key' in what ? what.key === key : key in what.unknownTo.leases;
}

function promotionOf({ forgets: what }: Fault): Promoted | undefined {
  return typeof what === 'object' && 'unknownTo' in what ? what.unknownTo : undefined;
}

/**
 * The time from which somebody else may have got the key because of this fault. A replica that knew of the lease when
 * it became master keeps the key for it, at least until the end that it knew.
 */
function forgottenFrom({ call, key, process, from, lease }: Section, fault: Fault): number {
  const promotion = promotionOf(fault);
  if (promotion === undefined) return fault.at;
  // Of several keys, the first may have been granted long after they were asked for, and unseen.
  const grantedBy = call !== undefined && isSeveral(call) ? from : lease.from;
  const known = promotion.leases[key];
  const isKnown = known?.process === process && grantedBy < promotion.cutAt - ANSWER_MS;
  return isKnown ? Math.max(fault.at, known.until - ROUNDING_MS) : fault.at;
}
