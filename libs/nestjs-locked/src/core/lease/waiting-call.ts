import { watchAbort } from '../runtime/abort-watch.js';
import type { Hold } from './hold.js';
import type { ResolvedLockOptions } from '../lock.options.js';
import { inNeutralContext } from '../runtime/neutral-context.js';
import type { Scheduled } from '../time/scheduler.js';

/** How long a call may take longer than its `waitMs`, for an answer that is on its way. */
const ANSWER_GRACE_MS = 1_000;

/** A timer that is so much late means that nothing else was done either. */
const STALL_MS = 100;

export interface CallerEnd {
  /** The wait is over. */
  timedOut(caller: WaitingCall): void;
  /** The caller's own signal aborted. */
  aborted(caller: WaitingCall): void;
}

/** One call that waits for its hold. */
export class WaitingCall implements Scheduled {
  place: Scheduled['place'];
  readonly promise: Promise<Hold>;
  readonly since: number;
  readonly options: ResolvedLockOptions;
  /**
   * The wait is over, but a command is on its way whose answer decides: held after all, busy, or unknown. True from
   * the start for a single try.
   */
  atEnd = false;
  /** When the wait, or the grace at its end, is over. */
  dueAt: number;
  /** One of several keys: its hold begins when the others are there, too. */
  readonly isPart: boolean;
  readonly #end: CallerEnd;
  readonly #forgetSignal: (() => void) | undefined;
  #resolve!: (hold: Hold) => void;
  #reject!: (error: Error) => void;

  /** @param options their signal has not aborted yet */
  constructor(options: ResolvedLockOptions, isPart: boolean, since: number, end: CallerEnd) {
    this.options = options;
    this.isPart = isPart;
    this.since = since;
    this.dueAt = since + options.waitMs;
    if (options.waitMs === 0) this.startGrace(since);
    this.#end = end;
    this.promise = new Promise((resolve, reject) => {
      this.#resolve = resolve;
      this.#reject = reject;
    });
    const { signal } = options;
    this.#forgetSignal =
      signal && watchAbort(signal, () => inNeutralContext(() => this.#end.aborted(this)));
  }

  /** The wait is over at `now`; the answer on its way may still come. */
  startGrace(now: number): void {
    this.atEnd = true;
    this.dueAt = now + ANSWER_GRACE_MS;
  }

  /** @returns whether the grace was over only because our own event loop was blocked: the answer may lie there unread */
  extendGrace(now: number): boolean {
    if (now - this.dueAt < STALL_MS) return false;
    this.dueAt = now + STALL_MS;
    return true;
  }

  onDue(): void {
    this.#end.timedOut(this);
  }

  resolve(hold: Hold): void {
    this.#forgetSignal?.();
    this.#resolve(hold);
  }

  reject(error: Error): void {
    this.#forgetSignal?.();
    this.#reject(error);
  }
}
