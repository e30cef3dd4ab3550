import { LockStoreError } from '../lock.errors.js';
import { driftMarginMs } from '../store/lease-timing.js';

/** How many answers must be slow, because a single one may be so by chance. */
const ENOUGH = 3;

/**
 * How long the store took for the latest answers about one key. A lease counts from the sending of its command, and a
 * call gets it only if half of it is left. So a round trip longer than that half leaves nothing to hand out, however
 * often the lease is renewed. The same applies if the process is blocked that long before it reads an answer.
 */
export class LatestAnswers {
  #tookMs: number[] = [];

  took(ms: number): void {
    this.#tookMs = [...this.#tookMs.slice(1 - ENOUGH), ms];
  }

  /** Whether the last answer left too little of a lease of this length. */
  isTooSlowFor(leaseMs: number): boolean {
    return this.#tookMs.slice(-1).some((ms) => ms > longestMs(leaseMs));
  }

  /** Whether all of them did, so that the next one will be no better. */
  areTooSlowFor(leaseMs: number): boolean {
    return this.#tookMs.length === ENOUGH && this.#tookMs.every((ms) => ms > longestMs(leaseMs));
  }

  tooSlow(key: string, leaseMs: number): LockStoreError {
    const ms = Math.round(
      Math.min(...this.#tookMs.filter((tookMs) => tookMs > longestMs(leaseMs))),
    );
    return new LockStoreError(
      `a round trip to Redis took ${ms} ms, or this process stood still for that time, which is more than half of the lease of ${leaseMs} ms; set leaseMs to several times that`,
      key,
    );
  }
}

function longestMs(leaseMs: number): number {
  return leaseMs / 2 - driftMarginMs(leaseMs);
}
