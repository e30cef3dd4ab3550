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

/** A script with more leases would keep the server from everything else for too long. */
const LEASES_PER_SCRIPT = 100;

/** Renews the leases that came due in the same round of the scheduler together, the most urgent first. */
export class Watchdog {
  readonly #store: LockStore;
  readonly #clock: Clock;
  #due: Renewable[] = [];

  constructor(store: LockStore, clock: Clock) {
    this.#store = store;
    this.#clock = clock;
  }

  /** Renews with the next `flush`. */
  collect(lease: Renewable): void {
    this.#due.push(lease);
  }

  flush(): void {
    if (this.#due.length === 0) return;
    const due = this.#due.sort((a, b) => a.deadline - b.deadline);
    this.#due = [];
    for (let i = 0; i < due.length; i += LEASES_PER_SCRIPT)
      void this.#renew(due.slice(i, i + LEASES_PER_SCRIPT));
  }

  async #renew(leases: Renewable[]): Promise<void> {
    const pairs: [Renewable, RenewCommand][] = [];
    for (const lease of leases) {
      const command = lease.renewCommand();
      if (command !== undefined) pairs.push([lease, command]);
    }
    if (pairs.length === 0) return;
    const sentAt = this.#clock.now();
    const replies = await this.#store.renew(pairs.map(([, command]) => command));
    pairs.forEach(([lease, command], i) =>
      lease.onRenewReply(command, sentAt, replies[i] as RenewReply),
    );
  }
}
