import { afterSilence } from '../../../core/time/after-silence.js';
import type { Clock } from '../../../core/time/clock.js';

/** A single answer may be late by chance. */
const ENOUGH = 3;

export interface SlowLinkTerms {
  readonly clock: Clock;
  /** How long a command may take, which follows from `leaseMs`. */
  readonly timeLimitMs: number;
  readonly leaseMs: number;
}

/** Redis answers, but every answer comes after the time of its command. */
export class SlowLinkError extends Error {
  constructor(tookMs: number, { timeLimitMs, leaseMs }: SlowLinkTerms) {
    super(
      `a round trip to Redis took ${Math.round(tookMs)} ms, more than the ${timeLimitMs} ms that a command may take with a lease of ${leaseMs} ms; set leaseMs to several times the round trip`,
    );
  }
}

/**
 * Asks once more when the first answers on a new connection have come late.
 * @param tookMs how long they have taken
 * @throws SlowLinkError if this answer is late as well · whatever `ask` throws
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

/** The answers of one connection that came too late, one after the other. */
export class LateAnswers {
  readonly #terms: SlowLinkTerms;
  #tookMs: number[] = [];
  #at = -Infinity;

  constructor(terms: SlowLinkTerms) {
    this.#terms = terms;
  }

  /** An answer was in time, or the connection is a new one. */
  clear(): void {
    if (this.#tookMs.length > 0) this.#tookMs = [];
  }

  /**
   * What a server answers late because it stood still comes at once, and counts once.
   * @returns that the link is too slow, once enough answers in a row were late
   */
  came(sentAt: number): SlowLinkError | undefined {
    if (sentAt < this.#at) return undefined;
    this.#at = this.#terms.clock.now();
    this.#tookMs.push(this.#at - sentAt);
    if (this.#tookMs.length < ENOUGH) return undefined;
    return new SlowLinkError(Math.min(...this.#tookMs), this.#terms);
  }
}
