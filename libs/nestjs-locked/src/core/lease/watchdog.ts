import type { LockStore, RenewCommand, RenewReply } from '../store/lock-store.js';
import type { Clock } from '../time/clock.js';

/** A lease as the watchdog sees it. */
export interface Renewable {
  /** Until when it is certainly ours; the most urgent lease is renewed first. */
  readonly deadline: number;
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
  #due: Renewable[] = [];
  #isFlushing = false;

  constructor(store: LockStore, clock: Clock) {
    this.#store = store;
    this.#clock = clock;
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
    const replies = this.#store.renew(pairs.map(([, command]) => command));
    pairs.forEach(([lease, command], i) => {
      const reply = replies[i] as Promise<RenewReply>;
      void reply.then((answer) => lease.onRenewReply(command, sentAt, answer));
    });
  }
}
