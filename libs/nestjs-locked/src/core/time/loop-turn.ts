import { afterReading, atNextTurn } from '../runtime/arrived-messages.js';
import { inNeutralContext } from '../runtime/neutral-context.js';
import { systemClock } from './clock.js';

/** After this time in one turn of the event loop, the next turn comes before a key is handed on or a call continues. */
const LONGEST_MS = 5;

/**
 * Measures how long the current turn of the event loop has lasted. Calls hand a key on in the microtask queue, and a
 * call that ends without a round trip, joined or refused, may return at once. Until that queue is empty, no socket is
 * read and no timer fires: nothing here would learn that other processes wait, or that the reason of a refusal has
 * passed, and the rest of the process would stop. Always uses the system clock, whatever clock the leases use.
 */
export class LoopTurn {
  /** When this turn was first queried. */
  #since: number | undefined;

  /** Whether it is time for the next turn. The first query in a turn starts the measurement. */
  get isLong(): boolean {
    const now = systemClock.now();
    if (this.#since !== undefined) return now - this.#since >= LONGEST_MS;
    this.#since = now;
    this.next(() => (this.#since = undefined));
    return false;
  }

  /** Await this where a caller may return at once; it resolves in the next turn if this one has been long. */
  pause(): Promise<void> | undefined {
    return this.isLong ? new Promise((resolve) => this.next(resolve)) : undefined;
  }

  /** Calls back in the next turn. */
  next(callback: () => void): void {
    inNeutralContext(() => atNextTurn(callback));
  }

  /** Calls back when all data that has arrived by now was read. */
  afterReading(callback: () => void): void {
    inNeutralContext(() => afterReading(callback));
  }
}
