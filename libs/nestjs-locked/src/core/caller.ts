import type { Hold } from './hold.js';
import type { ResolvedLockOptions } from './lock.options.js';
import type { Scheduled } from './scheduler.js';

/** How long a call may take longer than its `waitMs`, for an answer that is on its way. */
const ANSWER_GRACE_MS = 1_000;

export interface CallerEnd {
  /** The wait is over. */
  timedOut(caller: Caller): void;
  /** The caller's own signal aborted. */
  aborted(caller: Caller): void;
}

/** One call that waits for its hold. */
export class Caller implements Scheduled {
  place: Scheduled['place'];
  readonly promise: Promise<Hold>;
  readonly since: number;
  readonly options: ResolvedLockOptions;
  /**
   * The wait is over, but a command is on its way whose answer decides: held after all, busy, or unknown. True from
   * the start for a single try.
   */
  atEnd: boolean;
  readonly #end: CallerEnd;
  #resolve!: (hold: Hold) => void;
  #reject!: (error: Error) => void;

  constructor(options: ResolvedLockOptions, since: number, end: CallerEnd) {
    this.options = options;
    this.since = since;
    this.atEnd = options.waitMs === 0;
    this.#end = end;
    this.promise = new Promise((resolve, reject) => {
      this.#resolve = resolve;
      this.#reject = reject;
    });
    options.signal?.addEventListener('abort', this.#onAbort, { once: true });
  }

  /** When the wait is over. At its end there is a grace in which the answer on its way may still come. */
  get dueAt(): number {
    return this.since + this.options.waitMs + (this.atEnd ? ANSWER_GRACE_MS : 0);
  }

  onDue(): void {
    this.#end.timedOut(this);
  }

  resolve(hold: Hold): void {
    this.#forgetSignal();
    this.#resolve(hold);
  }

  reject(error: Error): void {
    this.#forgetSignal();
    this.#reject(error);
  }

  readonly #onAbort = (): void => this.#end.aborted(this);

  #forgetSignal(): void {
    this.options.signal?.removeEventListener('abort', this.#onAbort);
  }
}
