import { LockAbortedError, LockNotAcquiredError, LockStoreError } from '../lock.errors.js';
import type { ResolvedLockOptions } from '../resolved.options.js';
import { watchAbort } from '../runtime/abort-watch.js';
import type { Linked } from '../runtime/linked-list.js';
import { inNeutralContext } from '../runtime/neutral-context.js';
import { AwakeLimit, stoodStillMs, wasBlocked } from '../time/after-silence.js';
import type { Scheduled } from '../time/scheduler.js';
import type { Hold } from './hold.js';

/** How much longer than its `waitMs` a call may take while an answer is on its way, however many keys it wants. */
export const ANSWER_GRACE_MS = 1_000;

/** The queue in which the call stands. */
export interface CallUser {
  /** The wait is over. */
  timedOut(call: WaitingCall): void;
  /** The call's own signal aborted. */
  aborted(call: WaitingCall): void;
}

/** How long a call may take for all the keys that it wants; what is left of it may be less. Monotonic clock. */
export interface CallLimits {
  /** When the call came. */
  readonly since: number;
  /** How long it waits for its keys. */
  readonly waitMs: number;
  /** When the answers must have come at the latest. */
  readonly answerBy: number;
}

/** What one call asks of one key. */
export interface CallTerms {
  readonly key: string;
  /** Their signal has not aborted yet, and their `waitMs` is what is left for this key. */
  readonly options: ResolvedLockOptions;
  /** The call wants other keys as well: its hold begins when the call has all of them. */
  readonly isOneOfSeveral: boolean;
  readonly limits: CallLimits;
}

/** One call that waits for its hold. */
export class WaitingCall implements Scheduled, Linked<WaitingCall> {
  list: object | undefined;
  before: WaitingCall | undefined;
  after: WaitingCall | undefined;
  scheduled: Scheduled['scheduled'];
  readonly promise: Promise<Hold>;
  readonly options: ResolvedLockOptions;
  readonly isOneOfSeveral: boolean;
  /** When it came to this key, on the monotonic clock. */
  readonly since: number;
  /**
   * The wait is over, but a command is on its way whose answer decides: held after all, busy, or unknown. True from
   * the start for a single try.
   */
  atEnd = false;
  /** When the wait is over. In the grace at its end, when to look at that again. */
  dueAt: number;
  #grace: AwakeLimit | undefined;
  readonly #key: string;
  readonly #limits: CallLimits;
  readonly #user: CallUser;
  readonly #forgetSignal: (() => void) | undefined;
  #resolve!: (hold: Hold) => void;
  #reject!: (error: Error) => void;

  constructor({ key, options, isOneOfSeveral, limits }: CallTerms, since: number, user: CallUser) {
    this.#key = key;
    this.#limits = limits;
    this.options = options;
    this.isOneOfSeveral = isOneOfSeveral;
    this.since = since;
    this.dueAt = since + options.waitMs;
    if (options.waitMs === 0) this.startGrace(since);
    this.#user = user;
    this.promise = new Promise((resolve, reject) => {
      this.#resolve = resolve;
      this.#reject = reject;
    });
    const { signal } = options;
    this.#forgetSignal =
      signal && watchAbort(signal, () => inNeutralContext(() => this.#user.aborted(this)));
  }

  /**
   * The wait is over at `now`; the answer on its way may still come. If our own event loop was blocked when the wait
   * ended, the whole grace begins now, because the command may be sent only now.
   */
  startGrace(now: number): void {
    this.atEnd = true;
    const answerBy = wasBlocked(this.dueAt, now) ? Infinity : this.#limits.answerBy;
    const endsAt = Math.max(now, Math.min(now + ANSWER_GRACE_MS, answerBy));
    this.#grace = new AwakeLimit(ANSWER_GRACE_MS, now, endsAt);
    this.dueAt = this.#grace.lookAt(now);
  }

  /** @returns whether the grace goes on; the time in which our own event loop was blocked does not count */
  graceGoesOn(now: number): boolean {
    const grace = this.#grace as AwakeLimit;
    const stoodStill = stoodStillMs(this.dueAt, now);
    if (stoodStill > 0) grace.stoodStill(stoodStill, now);
    this.dueAt = grace.lookAt(now);
    return now < grace.endsAt;
  }

  onDue(): void {
    this.#user.timedOut(this);
  }

  resolve(hold: Hold): void {
    this.#forgetSignal?.();
    this.#resolve(hold);
  }

  /** Somebody else has the key; or nobody knows, because the store has failed. */
  refuse(now: number, failure: LockStoreError | undefined): void {
    if (failure === undefined) return this.reject(notAcquired(this.#key, this.#limits, now));
    const waitedMs = waitedFor(this.#limits, now);
    this.reject(
      new LockStoreError(
        `Cannot lock '${this.#key}': the lock store failed during the ${waitedMs} ms of waiting: ${failure.message}`,
        this.#key,
        { cause: failure },
      ),
    );
  }

  reject(error: Error): void {
    this.#forgetSignal?.();
    this.#reject(error);
  }
}

/** How long the call has waited for all its keys so far. */
export function waitedFor({ since }: CallLimits, now: number): number {
  return Math.round(now - since);
}

/** The error for a call whose wait has ended because somebody else has one of its keys. */
export function notAcquired(
  key: string,
  limits: CallLimits,
  now: number,
  holder = 'somebody else holds it',
): LockNotAcquiredError {
  const message = `Lock '${key}' was not acquired within ${limits.waitMs} ms: ${holder}`;
  return new LockNotAcquiredError(message, key, waitedFor(limits, now));
}

/** The error for a call whose own signal has aborted. */
export function abortedError(key: string, signal: AbortSignal | undefined): LockAbortedError {
  const cause: unknown = signal?.reason;
  return new LockAbortedError(`Waiting for lock '${key}' was aborted`, key, { cause });
}
