import {
  LockAbortedError,
  type LockDeadlockError,
  LockNotAcquiredError,
  LockQueueFullError,
  LockStoreError,
} from '../lock.errors.js';
import type { QueuedFor } from '../lock-events.js';
import type { ResolvedLockOptions } from '../resolved.options.js';
import { watchAbort } from '../runtime/abort-watch.js';
import type { Linked } from '../runtime/linked-list.js';
import { inNeutralContext } from '../runtime/neutral-context.js';
import { AwakeLimit, stoodStillMs, wasBlocked } from '../time/after-silence.js';
import type { Scheduled } from '../time/scheduler.js';
import type { Hold } from './hold.js';

/** How much longer than its `waitMs` a call may take while an answer is in flight, however many keys it wants. */
export const ANSWER_GRACE_MS = 1_000;

/** The queue of the call. */
export interface CallUser {
  /** The wait of the call is over. */
  timedOut(call: WaitingCall): void;
  /** The call's own signal aborted. */
  aborted(call: WaitingCall): void;
  /** The wait would never end. @returns whether the call was still waiting for its turn */
  deadlocked(call: WaitingCall, error: LockDeadlockError): boolean;
}

/** A wait that may be part of a deadlock, because the call holds other locks. */
export interface WatchedWait {
  /** @param giveUp ends the wait with an error; its result says whether the wait was still going on */
  begins(giveUp: (error: LockDeadlockError) => boolean): void;
  ends(): void;
}

/** Told, at most once, that the call has to wait. */
export interface WaitListener {
  queued(by: QueuedFor): void;
}

/** How long a call may take for all its keys together, on the monotonic clock. */
export interface CallLimits {
  /** When the call arrived. */
  readonly since: number;
  /** How long it waits for all its keys. */
  readonly waitMs: number;
  /** When all answers must have come. */
  readonly answerBy: number;
}

/** The terms on which one call waits for one key. */
export interface CallTerms {
  readonly key: string;
  /** The signal has not aborted yet, and `waitMs` is the rest for this key. */
  readonly options: ResolvedLockOptions;
  /** Whether the call wants other keys too: its hold begins when it has all of them. */
  readonly isOneOfSeveral: boolean;
  readonly limits: CallLimits;
  /** Told when the wait begins and ends. */
  readonly watched?: WatchedWait | undefined;
  /** Not of a single try, which never waits. */
  readonly listener?: WaitListener | undefined;
}

/** One call waiting for its hold. */
export class WaitingCall implements Scheduled, Linked<WaitingCall> {
  list: object | undefined;
  before: WaitingCall | undefined;
  after: WaitingCall | undefined;
  scheduled: Scheduled['scheduled'];
  readonly promise: Promise<Hold>;
  readonly options: ResolvedLockOptions;
  readonly isOneOfSeveral: boolean;
  /** When it began waiting for this key, on the monotonic clock. */
  readonly since: number;
  /**
   * Whether the wait is over and a command in flight decides: held after all, busy, or unknown. True from the start for
   * a single try.
   */
  atEnd = false;
  /** When the wait is over; during the grace, when to check it next. */
  dueAt: number;
  #grace: AwakeLimit | undefined;
  readonly #key: string;
  readonly #limits: CallLimits;
  readonly #user: CallUser;
  readonly #forgetSignal: (() => void) | undefined;
  readonly #watched: WatchedWait | undefined;
  #listener: WaitListener | undefined;
  #resolve!: (hold: Hold) => void;
  #reject!: (error: Error) => void;

  constructor(
    { key, options, isOneOfSeveral, limits, watched, listener }: CallTerms,
    since: number,
    user: CallUser,
  ) {
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
    this.#listener = listener;
    this.#watched = watched;
    watched?.begins((error) => this.#user.deadlocked(this, error));
  }

  /** Whether somebody wants to be told, and was not yet, that it has to wait. */
  get isToBeTold(): boolean {
    return this.#listener !== undefined;
  }

  /** Called when it is known that somebody else has the key. */
  hasToWait(by: QueuedFor): void {
    const listener = this.#listener;
    this.#listener = undefined;
    listener?.queued(by);
  }

  /**
   * Called when the wait is over at `now` but an answer in flight may still come. If our event loop was blocked when
   * the wait ended, the whole grace begins now, because the command may be sent only now.
   */
  startGrace(now: number): void {
    this.atEnd = true;
    const answerBy = wasBlocked(this.dueAt, now) ? Infinity : this.#limits.answerBy;
    const endsAt = Math.max(now, Math.min(now + ANSWER_GRACE_MS, answerBy));
    this.#grace = new AwakeLimit(ANSWER_GRACE_MS, now, endsAt);
    this.dueAt = this.#grace.lookAt(now);
  }

  /** @returns whether the grace continues; time in which our event loop was blocked does not count */
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
    this.#watched?.ends();
    this.#resolve(hold);
  }

  /** Rejects the call: somebody else has the key, or that is unknown because the store has failed. */
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
    this.#watched?.ends();
    this.#reject(error);
  }
}

/** How long the call has waited so far for all its keys. */
export function waitedFor({ since }: CallLimits, now: number): number {
  return Math.round(now - since);
}

/** The error for a call whose wait has ended while somebody else has one of its keys. */
export function notAcquired(
  key: string,
  limits: CallLimits,
  now: number,
  holder = heldByOther(limits),
): LockNotAcquiredError {
  const message = `Lock '${key}' was not acquired within ${limits.waitMs} ms: ${holder}`;
  return new LockNotAcquiredError(message, key, waitedFor(limits, now));
}

function heldByOther({ waitMs }: CallLimits): string {
  return `somebody else holds it; try again later, or set a ${waitMs === 0 ? '' : 'longer '}waitMs`;
}

/** The error for a call that may not wait because others do. */
export function tooManyWaiters(key: string, count: number, maxWaiters: number): LockQueueFullError {
  const wait =
    count === 1 ? 'one call of this process waits' : `${count} calls of this process wait`;
  return new LockQueueFullError(
    `Lock '${key}' was not requested: ${wait} for it already, and maxWaiters is ${maxWaiters}; try again later, or set a higher one`,
    key,
  );
}

/** The error for a call whose signal has aborted. */
export function abortedError(key: string, signal: AbortSignal | undefined): LockAbortedError {
  const cause: unknown = signal?.reason;
  return new LockAbortedError(
    `Waiting for lock '${key}' was aborted by the signal of the call`,
    key,
    { cause },
  );
}
