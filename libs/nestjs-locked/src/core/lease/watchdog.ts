import type { LockStore, RenewCommand, RenewReply } from '../store/lock-store.js';
import type { Clock } from '../time/clock.js';

/** A lease as the watchdog sees it. */
export interface Renewable {
  /** Until when it is certainly ours: the most urgent goes first. */
  readonly deadline: number;
  /** The command to send; undefined if the lease needs no renewal any more. */
  renewCommand(): RenewCommand | undefined;
  /** @param sentAt the lease counts from here if the reply is `renewed` */
  onRenewReply(command: RenewCommand, sentAt: number, reply: RenewReply): void;
}

/**
 * Renews the leases that came due in the same round of the scheduler together, the most urgent first. Each answer acts
 * when it comes, whatever becomes of the others.
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

  /** Renews with the next `flush`. */
  collect(lease: Renewable): void {
    this.#due.push(lease);
  }

  /**
   * Sends what was collected when the answers that have arrived were dealt with: those that came late make their leases
   * due at once, one after the other.
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
