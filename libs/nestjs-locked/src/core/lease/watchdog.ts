import type { OfLock, ReportLockEvent } from '../lock-events.js';
import type { LockStore, RenewCommand, RenewReply } from '../store/lock-store.js';
import type { Clock } from '../time/clock.js';

/** A renewal that comes later than this share of the lease, half of the usual time between two, is reported. */
const LATE_SHARE = 1 / 6;

/** A lease as the watchdog sees it. */
export interface Renewable extends OfLock {
  /** Until when it is certainly ours; the most urgent lease is renewed first. */
  readonly deadline: number;
  /** How much later than it was due its renewal was collected, in milliseconds. */
  readonly lateMs: number;
  /** Whether the backup has renewed it meanwhile. */
  readonly isBackedUp: boolean;
  /** The command to send; undefined if the lease no longer needs renewal. */
  renewCommand(): RenewCommand | undefined;
  /** @param sentAt from when the lease counts if the reply is `renewed` */
  onRenewReply(command: RenewCommand, sentAt: number, reply: RenewReply): void;
}

/**
 * Renews the leases that come due in the same round of the scheduler together, the most urgent first. Each answer is
 * handled when it comes, independently of the others.
 */
export class Watchdog {
  readonly #store: LockStore;
  readonly #clock: Clock;
  readonly #report: ReportLockEvent;
  #due: Renewable[] = [];
  #isFlushing = false;

  constructor(store: LockStore, clock: Clock, report: ReportLockEvent) {
    this.#store = store;
    this.#clock = clock;
    this.#report = report;
  }

  /** Renews the lease with the next `flush`. */
  collect(lease: Renewable): void {
    this.#due.push(lease);
  }

  /**
   * Sends the collected renewals after the answers that have arrived were handled: late answers make their leases due
   * at once, one after the other.
   */
  flush(): void {
    if (this.#due.length === 0 || this.#isFlushing) return;
    this.#isFlushing = true;
    queueMicrotask(() => {
      this.#isFlushing = false;
      this.#send();
    });
  }

  /** Of all leases that are late, the first has the least time left. */
  #tellIfLate(pairs: readonly [Renewable, RenewCommand][], now: number): void {
    const late = pairs.filter(
      ([lease, { leaseMs }]) => lease.lateMs >= leaseMs * LATE_SHARE && lease.deadline > now,
    );
    const [first] = late;
    if (first === undefined) return;
    const [{ key, label, template, lateMs, deadline, isBackedUp }] = first;
    const remainingMs = deadline - now;
    const leases = late.length;
    const of = { key, label, template };
    this.#report({ type: 'renewed-late', ...of, lateMs, remainingMs, leases, isBackedUp });
  }

  #send(): void {
    const due = this.#due.sort((a, b) => a.deadline - b.deadline);
    this.#due = [];
    const pairs: [Renewable, RenewCommand][] = [];
    for (const lease of due) {
      const command = lease.renewCommand();
      if (command !== undefined) pairs.push([lease, command]);
    }
    if (pairs.length === 0) return;
    const sentAt = this.#clock.now();
    this.#tellIfLate(pairs, sentAt);
    const replies = this.#store.renew(pairs.map(([, command]) => command));
    pairs.forEach(([lease, command], i) => {
      const reply = replies[i] as Promise<RenewReply>;
      void reply.then((answer) => lease.onRenewReply(command, sentAt, answer));
    });
  }
}
