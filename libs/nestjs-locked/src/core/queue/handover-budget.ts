import type { Clock } from '../time/clock.js';

/** A process may always keep a key this long: many times a hand-over between processes, and not noticed. */
const SHORT_BUDGET_MS = 20;

/**
 * No process keeps a wanted key for longer than this and the hold that is under way. A call for several keys waits this
 * long for each of them.
 */
const WHOLE_BUDGET_MS = 100;

/**
 * How long a lease may go from call to call in this process: without limit, until another process waits for it. Then
 * the calls of this process that wait already are served, and those that come later only at the very beginning; so
 * whoever waits, in whatever process, waits for each of the others once, as long as these limits allow.
 */
export class HandoverBudget {
  readonly #clock: Clock;
  /** Nobody goes before a call of another process that asked earlier. */
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

  /** Whether a call that has waited since then must leave the key to another process. */
  isSpentFor(waitsSince: number): boolean {
    if (this.#limitedAt === undefined) return false;
    if (this.#left <= 0) return true;
    const budgetMs = waitsSince <= this.#limitedAt ? WHOLE_BUDGET_MS : SHORT_BUDGET_MS;
    return this.#clock.now() - this.#limitedAt >= budgetMs;
  }

  /** Another process waits. */
  limit(): void {
    this.#limitedAt ??= this.#clock.now();
  }

  /** The lease goes from one call to another. */
  spend(): void {
    if (this.isLimited) this.#left--;
  }
}
