import { ANSWER_GRACE_MS, type CallLimits } from '../queue/waiting-call.js';
import { AFTER_STALL_MS, STALL_MS } from '../time/after-silence.js';
import type { Clock } from '../time/clock.js';

/**
 * How long one call may wait for all its keys together: `waitMs`, and `ANSWER_GRACE_MS` more for an answer in flight.
 * If this process was blocked meanwhile, the time is extended once (`asksAgain`).
 */
export class CallTime implements CallLimits {
  readonly since: number;
  readonly waitMs: number;
  readonly #clock: Clock;
  readonly #until: number;
  #answerBy: number;
  #isExtended = false;

  constructor(clock: Clock, waitMs: number) {
    this.#clock = clock;
    this.since = clock.now();
    this.waitMs = waitMs;
    this.#until = this.since + waitMs;
    this.#answerBy = this.#until + ANSWER_GRACE_MS;
  }

  /** The rest of `waitMs`, in whole milliseconds. */
  get leftMs(): number {
    return Math.max(0, Math.ceil(this.#until - this.#clock.now()));
  }

  /** When all answers must have arrived, however many keys the call wants. */
  get answerBy(): number {
    return this.#answerBy;
  }

  /**
   * Called when another command is sent. If the time for its answer is already over, this process was blocked, and the
   * time is extended once. If the time is nearly over, a block is likely too, and enough is left for a prompt answer.
   */
  asksAgain(): void {
    const now = this.#clock.now();
    const leftMs = this.#answerBy - now;
    if (this.#isExtended || leftMs >= STALL_MS / 2) return;
    this.#isExtended = true;
    this.#answerBy = now + (leftMs > 0 ? STALL_MS : AFTER_STALL_MS);
  }
}
