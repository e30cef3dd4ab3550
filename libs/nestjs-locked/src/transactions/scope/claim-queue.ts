import { whenDue } from '../../core/time/after-silence.js';
import type { Clock } from '../../core/time/clock.js';

/** A transaction that claims or waits to. */
export interface Claimant {
  /** Whether it already has a connection. */
  readonly isConnected: boolean;
}

interface Waiting {
  readonly claimant: Claimant;
  readonly go: () => void;
}

/**
 * Decides which transaction may claim one hold on one connection, in order of arrival. Transactions with a connection
 * overtake those without, even the first one, which may be waiting for that connection in the pool.
 */
export class ClaimQueue {
  readonly #waiting = new Set<Waiting>();
  #first: Claimant | undefined;

  /** Whether it may claim now. */
  isFirst(claimant: Claimant): boolean {
    return this.#first === claimant;
  }

  /** @returns whether it became first in time */
  enter(claimant: Claimant, clock: Clock, waitMs: number): Promise<boolean> {
    if (this.#first === undefined || (claimant.isConnected && !this.#first.isConnected)) {
      this.#first = claimant;
      return Promise.resolve(true);
    }
    return new Promise((resolve) => {
      const end = (isFirst: boolean): void => {
        this.#waiting.delete(waiting);
        cancel();
        resolve(isFirst);
      };
      const go = (): void => {
        this.#first = claimant;
        end(true);
      };
      const waiting = { claimant, go };
      const cancel = whenDue(clock, clock.now() + waitMs, () => end(false));
      this.#waiting.add(waiting);
    });
  }

  /** Does nothing if another transaction has overtaken it. */
  leave(claimant: Claimant): void {
    if (this.#first !== claimant) return;
    this.#first = undefined;
    const waiting = [...this.#waiting];
    const next = waiting.find((one) => one.claimant.isConnected) ?? waiting[0];
    next?.go();
  }
}
