import type { Fault } from '../history/entry.js';
import type { Disturbances } from './disturbances.js';
import { type Interval, overlaps } from './intervals.js';
import type { Section } from './section.js';

/** The longest pause before reconnecting. After that, all leases are renewed at once. */
const RECONNECT_MS = 1_000;
/** Allows for a round trip, and for the rounding of timers. */
const ROUND_TRIP_MS = 250;
/** An answer that is on its way arrives within this time, unless something holds it up. */
const ANSWER_MS = 80;
/** A key that an operator took away stays taken for this long. */
const REVOKED_MS = 1_000;

/** The fault during which answers arrive up to a quarter of a second later. */
export const SLOW = 'slow answers';

/**
 * Leases that Redis forgot or gave up before their holders could know it. Only these may overlap with others, and only
 * until the holder must have noticed.
 */
export class ForgottenLeases {
  readonly #disturbances: Disturbances;

  constructor(disturbances: Disturbances) {
    this.#disturbances = disturbances;
  }

  /** Whether a fault explains that there are two holders at this time, one of them in this section. */
  excuses(section: Section, at: number): boolean {
    return this.#concerning(section).some((fault) => at <= this.#noticedBy(section, fault, at));
  }

  /** Whether a fault may have taken the lease away before `at`. */
  mayBeForgotten(section: Section, at: number): boolean {
    return this.#concerning(section).some((fault) => fault.at <= at);
  }

  /** Whether the section existed at a time at which leases were forgotten. */
  concerns(section: Section): boolean {
    return this.#concerning(section).length > 0;
  }

  /** Whether anything about the key was forgotten in the interval, be it a lease or what is kept after one. */
  mayConcern(key: string, interval: Interval): boolean {
    return this.#disturbances.faults.some(
      (fault) => forgets(fault, key) && overlaps(interval, { from: fault.at, until: fault.until }),
    );
  }

  /** Faults that forgot leases of this key at a time when this lease may have existed. */
  #concerning(section: Section): Fault[] {
    return this.#disturbances.faults.filter(
      (fault) =>
        forgets(fault, section.key) && fault.at <= section.until && this.#existedAt(section, fault),
    );
  }

  /** A grant from before the fault may have been noted after it, if its reply or its process was slow. */
  #existedAt({ process, lease }: Section, fault: Fault): boolean {
    const { forgetsUntil = fault.until } = fault;
    if (lease.from <= forgetsUntil) return true;
    const since = { from: forgetsUntil, until: lease.from };
    const isSlow = this.#disturbances.faults.some(
      ({ name, at, until }) => name === SLOW && overlaps({ from: at, until }, since),
    );
    const lateMs = ANSWER_MS + (isSlow ? ROUND_TRIP_MS : 0);
    return lease.from <= forgetsUntil + lateMs + this.#disturbances.stalledMs(process, since);
  }

  /** Its own deadline ends every lease that cannot be renewed any more. */
  #noticedBy({ process, lease, isRenewed }: Section, fault: Fault, at: number): number {
    const deadline = fault.until + lease.lengthMs + ROUND_TRIP_MS;
    if (!isRenewed) return deadline;
    const since = { from: fault.at, until: at };
    const hinderedMs = this.#disturbances.hinderedMs(process, since);
    const reconnectMs = this.#disturbances.wasRedisInTrouble(since) ? RECONNECT_MS : 0;
    return Math.min(
      deadline,
      fault.until + noticeMs(fault, lease.lengthMs) + reconnectMs + hinderedMs,
    );
  }
}

function forgets({ forgets: what }: Fault, key: string): boolean {
  return what === 'all' || what?.key === key;
}

function noticeMs({ notice = 'renewal' }: Fault, leaseMs: number): number {
  switch (notice) {
    case 'message':
      return REVOKED_MS;
    case 'reconnect':
      return RECONNECT_MS + ROUND_TRIP_MS;
    case 'renewal':
      return leaseMs / 3 + ROUND_TRIP_MS;
  }
}
