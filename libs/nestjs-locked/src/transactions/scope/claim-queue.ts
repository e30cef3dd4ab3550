import { whenDue } from '../../core/time/after-silence.js';
import type { Clock } from '../../core/time/clock.js';

/** A transaction that claims, or waits to. */
export interface Claimant {
  /** Whether it has a connection already. */
  readonly isConnected: boolean;
}

interface Waiting {
  readonly claimant: Claimant;
  readonly go: () => void;
}

/**
 * Which transaction may claim one hold on one connection, in order of arrival. Those that have a connection go before
 * those that have none, also before the first one: that one may wait for theirs, in the pool.
 */
export class ClaimQueue {
  readonly #waiting = new Set<Waiting>();
  #first: Claimant | undefined;

  /** Whether it may claim now. */
  isFirst(claimant: Claimant): boolean {
    return this.#first === claimant;
  }

  /** @returns whether it has become the first one in time */
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

  /** Does nothing if another one has overtaken it. */
  leave(claimant: Claimant): void {
    if (this.#first !== claimant) return;
    this.#first = undefined;
    const waiting = [...this.#waiting];
    const next = waiting.find((one) => one.claimant.isConnected) ?? waiting[0];
    next?.go();
  }
}
