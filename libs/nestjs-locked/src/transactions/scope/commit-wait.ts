import type { Hold } from '../../core/queue/hold.js';
import { readArrived } from '../../core/runtime/arrived-messages.js';
import { systemClock } from '../../core/time/clock.js';

/** The share of a lease after which an unanswered COMMIT is late, and the lease is not renewed until the answer. */
const LATE_SHARE = 1 / 3;

/**
 * The wait for the answer to a COMMIT. A silently dead connection never answers, so the wait ends with the leases of
 * the transaction: a COMMIT has the length of a lease, plus at most a third.
 */
export class CommitWait {
  readonly #holds: () => Iterable<Hold>;
  readonly #onOverdue: () => void;
  readonly #late: Hold[] = [];
  /** When the wait is over, on the monotonic clock, even if readers beside this one keep the lease. */
  #until = Infinity;
  #cancel: (() => void) | undefined;

  /** @param onOverdue called once if a lease ends before the answer comes */
  constructor(holds: () => Iterable<Hold>, onOverdue: () => void) {
    this.#holds = holds;
    this.#onOverdue = onOverdue;
  }

  /** Called when the COMMIT is sent, or waits for its turn on the connection. */
  begin(): void {
    if (this.#cancel !== undefined) return;
    let ms = Infinity;
    for (const hold of this.#holds()) {
      ms = Math.min(ms, hold.options.leaseMs * LATE_SHARE, hold.leaseLeftMs());
    }
    if (ms < Infinity) this.#after(ms, () => this.#isLate());
  }

  /** Called when it was answered or is no longer awaited. */
  end(): void {
    this.#cancel?.();
    this.#cancel = undefined;
    for (const hold of this.#late.splice(0)) hold.commitCame();
  }

  #isLate(): void {
    for (const hold of this.#holds()) {
      hold.commitIsLate();
      this.#late.push(hold);
    }
    this.#until = systemClock.now() + Math.min(...this.#late.map(({ options }) => options.leaseMs));
    this.#look();
  }

  #look(): void {
    const leasesMs = this.#late.map((hold) => hold.leaseLeftMs());
    const leftMs = Math.min(...leasesMs, this.#until - systemClock.now());
    if (leftMs > 0) this.#after(leftMs, () => this.#look());
    else void this.#lastLook();
  }

  /** Reads the socket once more, because this process may have been blocked. */
  async #lastLook(): Promise<void> {
    const cancel = this.#cancel;
    await readArrived();
    if (this.#cancel === cancel && cancel !== undefined) this.#onOverdue();
  }

  #after(ms: number, act: () => void): void {
    this.#cancel = systemClock.after(Math.max(1, Math.ceil(ms)), act);
  }
}
