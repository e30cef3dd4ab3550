import type { Clock } from '../time/clock.js';

/**
 * How long a wanted key may go to calls that came after it was wanted: many times the duration of a hand-over between
 * processes, but not noticeable.
 */
const SHORT_BUDGET_MS = 20;

/**
 * How long it may go to calls that were waiting then: the longest time that a process keeps a wanted key, plus the hold
 * in progress. A call for several keys waits this long for each of them.
 */
const WHOLE_BUDGET_MS = 100;

/**
 * How long a lease may go from call to call in this process: without limit until another process waits for it. From
 * then on, calls already waiting here are served, and later ones only for a short time. Within these limits, a waiter
 * of any process waits for each of the others once.
 */
export class HandoverBudget {
  readonly #clock: Clock;
  /** Whether no call may overtake an earlier one of another process. */
  readonly isStrict: boolean;
  #left: number;
  #limitedAt: number | undefined;

  /** @param handovers allowed once another process waits */
  constructor(clock: Clock, handovers: number) {
    this.#clock = clock;
    this.isStrict = handovers === 0;
    this.#left = handovers;
  }

  /** Whether another process waits. */
  get isLimited(): boolean {
    return this.#limitedAt !== undefined;
  }

  /** Whether a call that has been waiting since then must leave the key to another process. */
  isSpentFor(waitsSince: number): boolean {
    if (this.#limitedAt === undefined) return false;
    if (this.#left <= 0) return true;
    const budgetMs = waitsSince <= this.#limitedAt ? WHOLE_BUDGET_MS : SHORT_BUDGET_MS;
    return this.#clock.now() - this.#limitedAt >= budgetMs;
  }

  /** Called when another process waits. */
  limit(): void {
    this.#limitedAt ??= this.#clock.now();
  }

  /** Called when the lease goes from one call to another. */
  spend(): void {
    if (this.isLimited) this.#left--;
  }
}
