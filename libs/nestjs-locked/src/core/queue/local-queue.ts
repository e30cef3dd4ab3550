import type { EngineParts } from '../lease/engine-parts.js';
import { LatestAnswers } from '../lease/latest-answers.js';
import type { LeaseGrant } from '../lease/lease-grant.js';
import { LeaseRequest } from '../lease/lease-request.js';
import type { LeaseUser } from '../lease/lease-user.js';
import type { Acquires, RequestUser } from '../lease/request-user.js';
import { LockAbortedError, LockStoreError } from '../lock.errors.js';
import type { Unknown } from '../store/lock-store.js';
import { RetryPause } from '../store/retry-pause.js';
import type { Scheduled } from '../time/scheduler.js';
import type { Hold } from './hold.js';
import { Occupancy } from './occupancy.js';
import { abortedError, type CallTerms, type CallUser, WaitingCall } from './waiting-call.js';
import { WaitingCalls } from './waiting-calls.js';

/**
 * The calls of this process that want the same key, served in order of arrival. Together they have one place in the
 * store's queue: the process asks for one lease and gives it to one call after another.
 *
 * Only the queue decides which call is next. It does so at two moments: when a call has come or gone (`#proceed`), and
 * when the lease has become free (`onFree`). Everything else is reported to it by the request or the lease
 * (`RequestUser`, `LeaseUser`) and changes what it has: a request, a lease, or neither, but never both.
 *
 * A queue that has calls but neither of the two is pausing after a failure, or waits until the clean-up has settled
 * what an earlier attempt left in the store.
 */
export class LocalQueue implements CallUser, RequestUser, LeaseUser, Scheduled {
  scheduled: Scheduled['scheduled'];
  readonly key: string;
  readonly #parts: EngineParts;
  /** Called when no call is left, and there is neither a request nor a lease. */
  readonly #onEmpty: (queue: LocalQueue) => void;
  readonly #calls: WaitingCalls;
  #request: LeaseRequest | undefined;
  #occupancy: Occupancy | undefined;
  /** Why the store could not be asked; undefined once it has answered again. */
  #failure: LockStoreError | undefined;
  readonly #retryPause = new RetryPause();
  readonly answers = new LatestAnswers();
  /** The position in the store's queue that the last request or lease had, for the next request to claim. */
  #position: number | undefined;
  #awaitsCleanUp = false;
  /** Called when the command that is on its way has been answered, or when the queue closes. */
  readonly #onAnswer: (() => void)[] = [];
  /** The lease that goes to the next call in the next turn of the event loop. */
  #awaitsLoopTurn: Occupancy | undefined;
  #isClosed = false;

  constructor(parts: EngineParts, key: string, onEmpty: (queue: LocalQueue) => void) {
    this.#parts = parts;
    this.#calls = new WaitingCalls(parts);
    this.key = key;
    this.#onEmpty = onEmpty;
  }

  /** Whether a single try must fail now, because this process has the key already or waits for it. */
  get isTaken(): boolean {
    // What is still on its way, although its calls have gone, serves the call that comes now: a first command, or the
    // confirmation of a lease.
    return !this.isEmpty || this.#request?.state === 'waiting' || this.#occupancy?.isTaken === true;
  }

  /** Whether an attempt to get the lease is under way, or to have it confirmed. */
  get isAsking(): boolean {
    return this.#request !== undefined || this.#isConfirming;
  }

  /** Whether the answer on its way decides if somebody else has the key, and nothing is known to be wrong. */
  get isUndecided(): boolean {
    const state = this.#request?.state;
    const isOnItsWay = state === 'asking' || state === 'leaving' || this.#isConfirming;
    return isOnItsWay && this.failure === undefined;
  }

  get #isConfirming(): boolean {
    return this.#occupancy?.lease.state === 'confirming';
  }

  /** Why it is not known who has the key, if that is so: the store could not be asked, and has not answered since. */
  get failure(): LockStoreError | undefined {
    if (this.#occupancy?.isTaken === true) return this.#failure; // by a call of this process
    return this.#failure ?? this.#parts.outages.causeOf(this.key);
  }

  /** Settled when the command that is on its way has been answered, or when the queue closes. */
  whenAnswered(): Promise<void> {
    return new Promise((resolve) => this.#onAnswer.push(resolve));
  }

  get isEmpty(): boolean {
    return this.#calls.size === 0;
  }

  get occupancy(): Occupancy | undefined {
    return this.#occupancy;
  }

  /** @param store carries out the first command, if one is needed. @default the lock store */
  enter(
    { options, isOneOfSeveral, limits }: Omit<CallTerms, 'key'>,
    store?: Acquires,
  ): Promise<Hold> {
    const refusal = this.#refusal(options.signal);
    if (refusal !== undefined) {
      this.#proceed(); // this call does not stay, so the queue may be empty
      return Promise.reject(refusal);
    }
    const terms = { key: this.key, options, isOneOfSeveral, limits };
    const call = new WaitingCall(terms, this.#parts.clock.now(), this);
    if (call.atEnd && this.isTaken && !this.isUndecided) {
      call.refuse(call.since, this.failure);
      return call.promise;
    }
    this.#calls.add(call);
    this.#occupancy?.expectCall();
    this.#proceed(store);
    return call.promise;
  }

  #refusal(signal: AbortSignal | undefined): Error | undefined {
    if (signal?.aborted === true) return abortedError(this.key, signal);
    return this.#occupancy === undefined ? this.#parts.outages.refusal(this.key) : undefined;
  }

  // ---- who is next ------------------------------------------------------------------------------------------

  /**
   * The first call gets the lease. If the lease may not serve it, the lease is handed over and asked for again. If the
   * store must confirm the lease first, there is no hold yet, and this is called again after the answer. It is also
   * called again if the event loop has not turned for some time.
   */
  onFree(): Promise<boolean> {
    const occupancy = this.#occupancy as Occupancy;
    const call = this.#calls.first;
    if (call === undefined) return this.#isClosed ? occupancy.lease.release() : occupancy.rest();
    if (occupancy.isFree && this.#parts.loopTurn.isLong) return this.#freeAfterLoopTurn(occupancy);
    if (!occupancy.mayServe(call.options, call.since))
      return occupancy.requeue(call.options.leaseMs, call.since);
    const hold = occupancy.handOut(call.options, call.isOneOfSeveral);
    if (hold !== undefined) this.#serve(call, hold);
    return Promise.resolve(true);
  }

  /** Other processes may have asked for the key: their messages are read first. */
  #freeAfterLoopTurn(occupancy: Occupancy): Promise<boolean> {
    if (this.#awaitsLoopTurn !== occupancy) {
      this.#awaitsLoopTurn = occupancy;
      this.#parts.loopTurn.next(() => {
        if (this.#awaitsLoopTurn === occupancy) this.#awaitsLoopTurn = undefined;
        const isLingering = this.isEmpty && occupancy.isIdle;
        if (this.#occupancy !== occupancy || !occupancy.isFree || isLingering) return;
        void this.onFree().catch(() => {}); // already reported
      });
    }
    return Promise.resolve(true);
  }

  #serve(call: WaitingCall, hold: Hold): void {
    this.#failure = undefined;
    this.#stopAwaiting();
    this.#calls.serve(call, hold);
    this.#calls.refuseAllAtEnd();
    if (!this.isEmpty) this.#occupancy?.expectCall();
  }

  /**
   * Something has changed: offers an idle lease to the first call, or asks for a lease if a call wants one.
   *
   * The store is not asked while something that an earlier attempt left may still be there: the store would take it for
   * another holder, and the new attempt would wait for its own process.
   */
  #proceed(store: Acquires = this.#parts.store): void {
    const call = this.#calls.first;
    if (call !== undefined && this.#occupancy?.isIdle === true) {
      void this.onFree().catch(() => {}); // already reported
      return;
    }
    if (this.#request !== undefined || this.#occupancy !== undefined) return;
    if (call === undefined) {
      this.#parts.scheduler.cancel(this);
      return this.#onEmpty(this);
    }
    if (this.scheduled !== undefined) return; // pausing after a failure
    const stuckBy = this.#parts.cleanUp.stuckBy(this.key);
    if (stuckBy !== undefined) return this.#awaitCleanUp(stuckBy);
    const position = this.#position;
    this.#position = undefined;
    const nowait = call.atEnd && this.#calls.size === 1;
    this.#request = new LeaseRequest(this.#parts, this.key, this, call.options.leaseMs);
    void this.#request.ask(store, nowait, position);
  }

  /** Our next attempt must not meet what an earlier one left in the store. */
  #awaitCleanUp(cause: LockStoreError): void {
    this.#failure = cause;
    if (this.#awaitsCleanUp) return;
    this.#awaitsCleanUp = true;
    this.#parts.cleanUp.whenSettled(this.key, () => {
      this.#awaitsCleanUp = false;
      this.#proceed();
    });
  }

  /** The pause after a failure is over. */
  onDue(): void {
    this.#proceed();
  }

  // ---- calls that end without the key -----------------------------------------------------------------------

  /**
   * A wait ends in two steps. When `waitMs` is over, the call stays for a moment if an answer is on its way, and that
   * answer decides. When this grace is over as well, the call gives up, unless a blocked event loop may have left the
   * answer unread.
   *
   * If no answer is on its way, the call is refused at once. The last call of a queue has the store asked once more.
   */
  timedOut(call: WaitingCall): void {
    this.#calls.overdue(call, (late) => this.#waitIsOver(late));
  }

  #waitIsOver(call: WaitingCall): void {
    const now = this.#parts.clock.now();
    if (call.atEnd) return call.graceGoesOn(now) ? this.#calls.lookLater(call) : this.#giveUp(call);
    this.#calls.startGrace(call, now);
    const state = this.#request?.state;
    if (state === 'asking' || state === 'leaving') return; // the answer on its way decides
    if (this.#isConfirming) return; // so does the answer to the renewal
    if (state === 'waiting' && this.#calls.size === 1) return this.#request?.tryOnceMore();
    this.#calls.refuse(call, this.failure);
    this.#settle();
  }

  /** The answer is overdue. If it still comes and grants the lease, another call gets it, or it is released. */
  #giveUp(call: WaitingCall): void {
    this.#failure =
      this.#parts.outages.causeOf(this.key) ??
      this.#failure ??
      new LockStoreError('Redis has not answered yet', this.key);
    this.#calls.refuse(call, this.#failure);
    this.#settle();
  }

  aborted(call: WaitingCall): void {
    this.#calls.reject(call, abortedError(this.key, call.options.signal));
    this.#settle();
  }

  /** The application closes: the calls that wait are rejected, and an unused lease is released. */
  close(): void {
    this.#isClosed = true;
    const reason = 'the application is shutting down';
    this.#calls.rejectAll(
      () => new LockAbortedError(`Waiting for lock '${this.key}' was ended: ${reason}`, this.key),
    );
    this.#stopAwaiting();
    // A lease that is being confirmed might never be: nobody waits for the next attempt to renew it.
    if (this.#occupancy?.lease.state === 'confirming')
      void this.#occupancy.lease.release().catch(() => {}); // reported
    else this.#occupancy?.giveUp();
    this.#settle();
  }

  #settle(): void {
    if (this.isEmpty) this.#request?.leave();
    this.#proceed();
  }

  // ---- what the request and the lease report ----------------------------------------------------------------

  granted(from: object, grant: LeaseGrant): void {
    this.#detach(from);
    this.#occupancy = new Occupancy(this.#parts, this.key, this, grant);
    this.#answered();
    this.#occupancy.lease.start();
  }

  /** Calls whose wait is over learn that somebody else has the key; the others go on waiting. */
  mustWait(): void {
    this.#answered();
    this.#stopAwaiting();
    this.#calls.refuseAllAtEnd();
  }

  notAcquired(from: object): void {
    this.mustWait();
    this.over(from);
  }

  storeFails(cause: LockStoreError): void {
    this.#failure = cause;
  }

  #answered(): void {
    this.#failure = undefined;
    this.#retryPause.reset();
    this.#position = undefined;
  }

  /**
   * Calls whose wait is over are refused, and all calls are if asking again cannot help. The others try again after a
   * pause, from the same position in the store's queue.
   */
  storeFailed(from: object, { cause, isLasting = false }: Unknown, position?: number): void {
    this.#failure = cause;
    this.#position = position;
    this.#calls.refuseEach((call) => call.atEnd || isLasting, cause);
    this.#detach(from);
    if (this.isEmpty) return this.#proceed();
    this.#parts.scheduler.schedule(this, this.#parts.clock.now() + this.#retryPause.next());
  }

  /** Refuses the calls that ask for so short a lease. The next one may have it; if there is none, it is released. */
  answersTooSlowly(cause: LockStoreError, leaseMs: number): void {
    this.#failure = undefined;
    this.#calls.refuseEach((call) => call.options.leaseMs <= leaseMs, cause);
    void this.onFree().catch(() => {}); // already reported
  }

  over(from: object, position?: number): void {
    if (!this.#detach(from)) return;
    this.#position = position;
    this.#proceed();
  }

  askAgain(from: object, leaseMs: number): LeaseRequest {
    this.#detach(from);
    this.#request = new LeaseRequest(this.#parts, this.key, this, leaseMs);
    return this.#request;
  }

  /** @returns false if the queue has left it behind already */
  #detach(from: object): boolean {
    if (from === this.#request) this.#request = undefined;
    else if (from === this.#occupancy?.lease) this.#occupancy = undefined;
    else return false;
    this.#stopAwaiting();
    return true;
  }

  #stopAwaiting(): void {
    for (const stop of this.#onAnswer.splice(0)) stop();
  }

  /** Messages may have been lost, or the server may be another one, or reachable again. */
  lookAgain(): void {
    this.#request?.lookAgain();
    this.#occupancy?.lookAgain();
    if (this.scheduled === undefined) return;
    this.#parts.scheduler.cancel(this);
    this.#proceed();
  }
}
