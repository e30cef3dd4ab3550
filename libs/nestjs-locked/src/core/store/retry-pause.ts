/** The first pause before an unanswered command is retried, in milliseconds. */
export const RETRY_MS = 100;

const SLOWEST_RETRY_MS = 1_000;

/** Pauses that double with every consecutive failure. */
export class RetryPause {
  readonly #firstMs: number;
  readonly #longestMs: number;
  #ms: number;

  constructor(firstMs = RETRY_MS, longestMs = SLOWEST_RETRY_MS) {
    this.#firstMs = firstMs;
    this.#longestMs = longestMs;
    this.#ms = firstMs;
  }

  /** @returns the next pause, in milliseconds */
  next(): number {
    const ms = this.#ms;
    this.#ms = Math.min(ms * 2, this.#longestMs);
    return ms;
  }

  /** Called when the store has answered. */
  reset(): void {
    this.#ms = this.#firstMs;
  }
}
