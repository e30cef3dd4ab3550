import { afterSilence } from '../../../core/time/after-silence.js';
import type { Clock } from '../../../core/time/clock.js';

/** How many answers must be late, because a single one may be so by chance. */
const ENOUGH = 3;

export interface SlowLinkTerms {
  readonly clock: Clock;
  /** How long a command may take, derived from `leaseMs`. */
  readonly timeLimitMs: number;
  readonly leaseMs: number;
}

/** Redis answers, but always after the time limit of the command. */
export class SlowLinkError extends Error {
  constructor(tookMs: number, { timeLimitMs, leaseMs }: SlowLinkTerms) {
    super(
      `a round trip to Redis took ${Math.round(tookMs)} ms, more than the ${timeLimitMs} ms that a command may take with a lease of ${leaseMs} ms; set leaseMs to several times the round trip`,
    );
  }
}

/**
 * Asks once more if the first answers on a new connection were late.
 * @param tookMs the time they took
 * @throws SlowLinkError if this answer is late too · any error of `ask`
 */
export async function assertInTime(
  tookMs: number,
  ask: () => Promise<unknown>,
  terms: SlowLinkTerms,
): Promise<void> {
  const { clock, timeLimitMs } = terms;
  const askedAt = clock.now();
  let isLate = false;
  const cancel = afterSilence(clock, timeLimitMs, () => (isLate = true));
  await ask().finally(cancel);
  if (isLate) throw new SlowLinkError(Math.min(tookMs, clock.now() - askedAt), terms);
}

/** The consecutive late answers of one connection. */
export class LateAnswers {
  readonly #terms: SlowLinkTerms;
  #tookMs: number[] = [];
  #at = -Infinity;

  constructor(terms: SlowLinkTerms) {
    this.#terms = terms;
  }

  /** Called when an answer was in time, or the connection is new. */
  clear(): void {
    if (this.#tookMs.length > 0) this.#tookMs = [];
  }

  /**
   * Notes a late answer. Those of a blocked server arrive together, and count once.
   * @returns the error for a slow link, when enough consecutive answers were late
   */
  came(sentAt: number): SlowLinkError | undefined {
    if (sentAt < this.#at) return undefined;
    this.#at = this.#terms.clock.now();
    this.#tookMs.push(this.#at - sentAt);
    if (this.#tookMs.length < ENOUGH) return undefined;
    return new SlowLinkError(Math.min(...this.#tookMs), this.#terms);
  }
}
