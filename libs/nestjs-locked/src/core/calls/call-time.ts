import { ANSWER_GRACE_MS, type CallLimits } from '../queue/waiting-call.js';
import { AFTER_STALL_MS, STALL_MS } from '../time/after-silence.js';
import type { Clock } from '../time/clock.js';

/**
 * How long one call may wait for all its keys together: `waitMs`, and `ANSWER_GRACE_MS` more for an answer that is
 * under way by then. If this process stood still meanwhile, there is a little more, once (`asksAgain`).
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

  /** What is left of `waitMs`, in whole milliseconds. */
  get leftMs(): number {
    return Math.max(0, Math.ceil(this.#until - this.#clock.now()));
  }

  /** When all answers must have come, however many keys the call wants. */
  get answerBy(): number {
    return this.#answerBy;
  }

  /**
   * Another command is sent now. If the time for its answer is over already, this process has stood still: once, there
   * is more of it. If it is nearly over, the same is likely, and there is enough for an answer that comes at once.
   */
  asksAgain(): void {
    const now = this.#clock.now();
    const leftMs = this.#answerBy - now;
    if (this.#isExtended || leftMs >= STALL_MS / 2) return;
    this.#isExtended = true;
    this.#answerBy = now + (leftMs > 0 ? STALL_MS : AFTER_STALL_MS);
  }
}
