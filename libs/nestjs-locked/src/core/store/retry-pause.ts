/** How soon something that the store has not answered is tried again, in milliseconds. */
export const RETRY_MS = 100;

const SLOWEST_RETRY_MS = 1_000;

/** Pauses that double with every failure in a row: 100 ms at first, a second at most. */
export class RetryPause {
  #ms = RETRY_MS;

  /** @returns how long to pause this time, in milliseconds */
  next(): number {
    const ms = this.#ms;
    this.#ms = Math.min(ms * 2, SLOWEST_RETRY_MS);
    return ms;
  }

  /** The store has answered. */
  reset(): void {
    this.#ms = RETRY_MS;
  }
}
