import type { ResolvedLockOptions } from '../resolved.options.js';
import type { LockStore } from '../store/lock-store.js';
import type { FencingNumbers } from './fencing-numbers.js';
import type { LeaseDeadline } from './lease-deadline.js';
import type { LeaseGrant } from './lease-grant.js';

/** Whether a lease may be handed out as it is, or the store must confirm it first. */
export class LeaseReadiness {
  readonly #store: LockStore;
  readonly #grant: LeaseGrant;
  readonly #deadline: LeaseDeadline;
  readonly #numbers: FencingNumbers;
  /** Still as the store granted it: neither handed out nor renewed yet. */
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

  /** A grant may be short. At least half of it must be left, and the store must take its own message for granted. */
  get isOfferedAtOnce(): boolean {
    const { cameBy, lengthMs } = this.#grant;
    if (cameBy === 'message' && this.#store.mustConfirmMessages === true) return false;
    return this.#deadline.certainMs() >= lengthMs / 2;
  }

  /** Whether the work may begin without asking the store first. The length of a fresh grant was judged at its start. */
  isFor({ leaseMs, renew }: ResolvedLockOptions): boolean {
    if (this.#numbers.areSpent) return false;
    const share = renew && this.#isFresh ? 0 : 0.5;
    if (!this.#deadline.isEnoughFor(leaseMs, share)) return false;
    // A fixed lease is not prolonged later, so it must have its whole length now.
    return renew || this.#deadline.isWholeFor(leaseMs);
  }

  /** A fixed lease is shared with no other call: it must be unused, and asked for with exactly this length. */
  isUnusedFor(leaseMs: number): boolean {
    return this.#numbers.areUnused && this.#grant.leaseMs === leaseMs;
  }

  /** It is handed out, or renewed. */
  used(): void {
    this.#isFresh = false;
  }
}
