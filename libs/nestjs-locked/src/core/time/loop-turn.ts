import { afterReading, atNextTurn } from '../runtime/arrived-messages.js';
import { inNeutralContext } from '../runtime/neutral-context.js';
import { systemClock } from './clock.js';

/** After this time without a turn of the event loop, the next one comes before a key is passed on or a call goes on. */
const LONGEST_MS = 5;

/**
 * How long the present turn of the event loop has lasted. Calls pass a key on in the microtask queue, and one
 * that ends without asking the store, joined or refused, may come again at once. As long as that queue is never
 * empty, no socket is read and no timer fires: nobody here would learn that other processes wait, or that what a call
 * was refused for is over, and nothing else in this process would go on. It is the event loop of this process that is
 * meant, whatever clock the leases go by.
 */
export class LoopTurn {
  /** When somebody first asked in this turn. */
  #since: number | undefined;

  /** Whether it is time for the next turn. Asked for the first time in a turn, it is not. */
  get isLong(): boolean {
    const now = systemClock.now();
    if (this.#since !== undefined) return now - this.#since >= LONGEST_MS;
    this.#since = now;
    this.next(() => (this.#since = undefined));
    return false;
  }

  /** To be awaited where a caller may come again at once: settles in the next turn if it is time for that. */
  pause(): Promise<void> | undefined {
    return this.isLong ? new Promise((resolve) => this.next(resolve)) : undefined;
  }

  /** Calls back in the next turn. */
  next(callback: () => void): void {
    inNeutralContext(() => atNextTurn(callback));
  }

  /** Calls back when everything that has arrived by now was read. */
  afterReading(callback: () => void): void {
    inNeutralContext(() => afterReading(callback));
  }
}
