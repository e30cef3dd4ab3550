import type { ResolvedLockOptions } from '../resolved.options.js';
import type { LockStore } from '../store/lock-store.js';
import type { FencingNumbers } from './fencing-numbers.js';
import type { LeaseDeadline } from './lease-deadline.js';
import type { LeaseGrant } from './lease-grant.js';

/** Decides whether a lease may be handed out as it is, or the store must confirm it first. */
export class LeaseReadiness {
  readonly #store: LockStore;
  readonly #grant: LeaseGrant;
  readonly #deadline: LeaseDeadline;
  readonly #numbers: FencingNumbers;
  /** Whether the lease was neither handed out nor renewed yet, or is being handed out to all readers that waited. */
  #isFresh = true;

  constructor(
    store: LockStore,
    grant: LeaseGrant,
    deadline: LeaseDeadline,
    numbers: FencingNumbers,
  ) {
    this.#store = store;
    this.#grant = grant;
    this.#deadline = deadline;
    this.#numbers = numbers;
  }

  /**
   * Whether a grant, which may be short, can be offered at once: at least half of it must be left, and a message must
   * be as safe as an answer.
   */
  get isOfferedAtOnce(): boolean {
    const { cameBy, lengthMs } = this.#grant;
    if (cameBy === 'message' && this.#store.mustConfirmMessages === true) return false;
    return this.#deadline.certainMs() >= lengthMs / 2;
  }

  /** Whether the work may begin without a round trip. The length of a fresh grant was checked at its start. */
  isFor({ leaseMs, renew }: ResolvedLockOptions): boolean {
    if (this.#numbers.areSpent) return false;
    const share = renew && this.#isFresh ? 0 : 0.5;
    if (!this.#deadline.isEnoughFor(leaseMs, share)) return false;
    // A fixed lease is not prolonged later, so it needs its whole length now.
    return renew || this.#deadline.isWholeFor(leaseMs);
  }

  /** Whether a fixed lease, which no other call may share, is unused and was requested with exactly this length. */
  isUnusedFor(leaseMs: number): boolean {
    return this.#numbers.areUnused && this.#grant.leaseMs === leaseMs;
  }

  /** Called when the lease is handed out, to readers all together, or renewed. */
  used(): void {
    this.#isFresh = false;
  }
}
