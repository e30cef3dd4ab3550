/** The first pause before an unanswered command is retried, in milliseconds. */
export const RETRY_MS = 100;

const SLOWEST_RETRY_MS = 1_000;

/** Pauses that double with every consecutive failure: 100 ms at first, a second at most. */
export class RetryPause {
  #ms = RETRY_MS;

  /** @returns the next pause, in milliseconds */
  next(): number {
    const ms = this.#ms;
    this.#ms = Math.min(ms * 2, SLOWEST_RETRY_MS);
    return ms;
  }

  /** Called when the store has answered. */
  reset(): void {
    this.#ms = RETRY_MS;
  }
}
