import type { Clock } from '../time/clock.js';

/**
 * Local hand-overs stop after this time once another process waits, whatever `localHandovers` allows. It is long next
 * to a hand-over between processes, and short next to a wait that anybody notices.
 */
const LOCAL_HANDOVER_MS = 40;

/** How long a lease may go from call to call in this process: without limit, until another process waits for it. */
export class HandoverBudget {
  readonly #clock: Clock;
  #left: number;
  #until: number | undefined;

  /** @param handovers allowed once another process waits */
  constructor(clock: Clock, handovers: number) {
    this.#clock = clock;
    this.#left = handovers;
  }

  /** Whether another process waits. */
  get isLimited(): boolean {
    return this.#until !== undefined;
  }

  get isSpent(): boolean {
    if (this.#until === undefined) return false;
    return this.#left <= 0 || this.#clock.now() >= this.#until;
  }

  limit(): void {
    this.#until ??= this.#clock.now() + LOCAL_HANDOVER_MS;
  }

  spend(): void {
    if (this.isLimited) this.#left--;
  }
}
