import type { EngineParts } from '../lease/engine-parts.js';
import { LatestAnswers } from '../lease/latest-answers.js';
import type { LeaseGrant } from '../lease/lease-grant.js';
import { LeaseRequest } from '../lease/lease-request.js';
import type { LeaseUser } from '../lease/lease-user.js';
import type { Acquires, RequestUser } from '../lease/request-user.js';
import { LockAbortedError, type LockDeadlockError, LockStoreError } from '../lock.errors.js';
import type { QueuedFor } from '../lock-events.js';
import type { HeldMode, KeyTerms } from '../lock-mode.js';
import type { ResolvedLockOptions } from '../resolved.options.js';
import { termsOf } from '../store/lease-token.js';
import type { Unknown } from '../store/lock-store.js';
import { RetryPause } from '../store/retry-pause.js';
import { templateOf } from '../template-of.js';
import type { Scheduled } from '../time/scheduler.js';
import { reportDifferingPermits } from './differing-permits.js';
import type { Hold } from './hold.js';
import type { Occupancy } from './occupancy.js';
import { SharedOccupancy } from './shared-occupancy.js';
import { SoleOccupancy } from './sole-occupancy.js';
import {
  abortedError,
  type CallTerms,
  type CallUser,
  tooManyWaiters,
  WaitingCall,
} from './waiting-call.js';
import { WaitingCalls } from './waiting-calls.js';

const ALONE_OR_SHARED = { exclusive: { mode: 'exclusive' }, shared: { mode: 'shared' } } as const;

/** Of a call for a permit. */
type PermitOptions = ResolvedLockOptions & Required<Pick<KeyTerms, 'permits' | 'weight'>>;

/**
 * The calls of this process that want the same key in the same mode, served in order of arrival. Together they have one
 * position in the store's queue: the process requests one lease and gives it to one call after another, or to all that
 * read. Of permits, it requests one after another, each for the call that is next.
 *
 * Only the queue decides which call is next. It does so at two moments: when a call has come or gone (`#proceed`), and
 * when the lease has become free (`onFree`). The request or the lease reports everything else (`RequestUser`,
 * `LeaseUser`), which changes what the queue has: a request, a lease, or neither, but never both.
 *
 * A queue with calls but neither of the two is pausing after a failure, or waiting for the clean-up to remove what an
 * earlier attempt left in the store.
 */
export class LocalQueue implements CallUser, RequestUser, LeaseUser, Scheduled {
  scheduled: Scheduled['scheduled'];
  readonly key: string;
  readonly mode: HeldMode;
  readonly #parts: EngineParts;
  /** Called when there is no call, no request and no lease. */
  readonly #onEmpty: (queue: LocalQueue) => void;
  /** Carries out the first command of each request. */
  readonly #store: Acquires;
  readonly #calls: WaitingCalls;
  #request: LeaseRequest | undefined;
  #occupancy: Occupancy | undefined;
  /** Why the store could not be reached; undefined once it has answered again. */
  #failure: LockStoreError | undefined;
  readonly #retryPause = new RetryPause();
  readonly answers = new LatestAnswers();
  /** The position in the store's queue that the last request or lease had, for the next request to claim. */
  #position: number | undefined;
  #awaitsCleanUp = false;
  /** Called when the command in flight was answered, or when the queue closes. */
  readonly #onAnswer: (() => void)[] = [];
  /** Set while the lease waits for the next turn of the event loop to go to the next call. */
  #awaitsLoopTurn: Occupancy | undefined;
  #isClosed = false;
  /** Leases that serve only the calls inside, after which they are released: shared ones, and permits. */
  #parted: Map<object, Occupancy> | undefined;
  /** Whether the next lease comes from another process: a request was told to wait since the last one. */
  #hasWaited = false;
  /** Whether a call is to be told that it has to wait, which is not known yet. */
  #isToTell = false;

  /** @param adopts if its only call adopts a lease: makes every request an adoption. @default the lock store */
  constructor(
    parts: EngineParts,
    key: string,
    mode: HeldMode,
    onEmpty: (queue: LocalQueue) => void,
    adopts?: Acquires,
  ) {
    this.#parts = parts;
    this.mode = mode;
    this.#calls = new WaitingCalls(parts);
    this.key = key;
    this.#onEmpty = onEmpty;
    this.#store = adopts ?? parts.store;
    this.#hasWaited = adopts !== undefined;
  }

  /** Whether a single try must fail now, because this process already has the key or waits for it. */
  get isTaken(): boolean {
    // A command still in flight after its calls have left serves the new call: a first command, or the confirmation of
    // a lease.
    return !this.isEmpty || this.#request?.state === 'waiting' || this.#occupancy?.isTaken === true;
  }

  /** Whether an attempt to get or confirm the lease is in progress. */
  get isAsking(): boolean {
    return this.#request !== undefined || this.#isConfirming;
  }

  /** Whether an answer in flight decides if somebody else has the key, and no failure is known. */
  get isUndecided(): boolean {
    const state = this.#request?.state;
    const isOnItsWay = state === 'asking' || state === 'leaving' || this.#isConfirming;
    return isOnItsWay && this.failure === undefined;
  }

  get #isConfirming(): boolean {
    return this.#occupancy?.lease.state === 'confirming';
  }

  /** Why it is unknown who has the key, if so: the store could not be reached, and has not answered since. */
  get failure(): LockStoreError | undefined {
    if (this.#occupancy?.isTaken === true) return this.#failure; // known: a call of this process
    return this.#failure ?? this.#parts.outages.causeOf(this.key);
  }

  /** Resolves when the command in flight was answered, or when the queue closes. */
  whenAnswered(): Promise<void> {
    return new Promise((resolve) => this.#onAnswer.push(resolve));
  }

  get isEmpty(): boolean {
    return this.#calls.size === 0;
  }

  /** How many calls of this process wait. */
  get waiters(): number {
    return this.#calls.size;
  }

  /** How many of them wait for their turn; the others, and all single tries, end with the answer in flight. */
  get waiting(): number {
    return this.#calls.waiting;
  }

  /** Whether it is known to have a place in the store's queue. */
  get isQueued(): boolean {
    return this.#request?.state === 'waiting';
  }

  /** Those calls, in order of arrival. */
  get calls(): Iterable<WaitingCall> {
    return this.#calls;
  }

  get label(): string | undefined {
    return this.#calls.first?.options.label;
  }

  get terms(): KeyTerms {
    if (this.mode !== 'permit') return ALONE_OR_SHARED[this.mode];
    const { permits, weight } = this.#next as PermitOptions;
    return { mode: 'permit', permits, weight };
  }

  get leaseMs(): number {
    return this.#next.leaseMs;
  }

  /**
   * Shared leases are whole from the beginning: other readers join them only while half of them is left. So is one for
   * which the last answer came too late if it was short: each of them might end before it is confirmed.
   */
  get firstMs(): number {
    const { leaseMs } = this.#next;
    if (this.mode === 'shared') return leaseMs;
    const firstMs = Math.min(leaseMs, this.#parts.firstLeases.lengthMs(this.key, this.#next));
    return firstMs < leaseMs && this.answers.isTooSlowFor(firstMs) ? leaseMs : firstMs;
  }

  /** The options of the call that is next, for which there is a request. */
  get #next(): ResolvedLockOptions {
    return (this.#calls.first as WaitingCall).options;
  }

  /** Whether a permit was requested for a call that wanted another one than the next call does. */
  #suitsNobody(terms: KeyTerms | undefined): boolean {
    if (this.mode !== 'permit' || this.isEmpty) return false;
    const { permits, weight } = this.terms;
    return terms?.permits !== permits || terms?.weight !== weight;
  }

  get occupancy(): Occupancy | undefined {
    return this.#occupancy;
  }

  /** That of its lease, and those of the leases that serve only the calls inside. */
  occupancies(): readonly Occupancy[] {
    const current = this.#occupancy === undefined ? [] : [this.#occupancy];
    return this.#parted === undefined ? current : [...current, ...this.#parted.values()];
  }

  /** @param store carries out the first command, if one is needed. @default the lock store */
  enter(
    { options, isOneOfSeveral, limits, watched, listener }: Omit<CallTerms, 'key'>,
    store?: Acquires,
  ): Promise<Hold> {
    const refusal = this.#refusal(options);
    if (refusal !== undefined) {
      this.#proceed(); // the call does not join, so the queue may be empty
      return Promise.reject(refusal);
    }
    const terms = { key: this.key, options, isOneOfSeveral, limits, watched, listener };
    const call = new WaitingCall(terms, this.#parts.clock.now(), this);
    if (call.atEnd && this.isTaken && !this.isUndecided) {
      call.refuse(call.since, this.failure);
      return call.promise;
    }
    this.#calls.add(call);
    this.#occupancy?.expectCall();
    this.#proceed(store);
    if (call.isToBeTold && this.#calls.has(call)) this.#tell(call);
    return call.promise;
  }

  /** Tells a call that it has to wait, now or, if an answer is awaited that may still serve it, afterwards. */
  #tell(call: WaitingCall): void {
    if (this.#occupancy?.isOccupied === true) call.hasToWait('local');
    else if (this.#request?.state === 'waiting') call.hasToWait('store');
    else this.#isToTell = true;
  }

  #tellAll(by: QueuedFor): void {
    if (!this.#isToTell) return;
    this.#isToTell = false;
    for (const call of [...this.#calls]) call.hasToWait(by);
  }

  #refusal({ signal, waitMs, maxWaiters }: ResolvedLockOptions): Error | undefined {
    if (signal?.aborted === true) return abortedError(this.key, signal);
    const failFast =
      this.#occupancy === undefined ? this.#parts.outages.failFastError(this.key) : undefined;
    const { waiting } = this.#calls;
    if (failFast !== undefined || waitMs === 0 || waiting < maxWaiters) return failFast;
    return tooManyWaiters(this.key, waiting, maxWaiters);
  }

  // ---- who is next ------------------------------------------------------------------------------------------

  /**
   * Gives the lease to the first call, and a shared one to the others as well. If the lease may not serve a call, hands
   * the lease over, or leaves it to the calls inside, and requests another one. If the store must confirm the lease
   * first, or the event loop has not turned for some time, this is called again afterwards.
   */
  onFree(): Promise<boolean> {
    const occupancy = this.#occupancy as Occupancy;
    const { first } = this.#calls;
    if (first === undefined) return this.#isClosed ? occupancy.lease.release() : occupancy.rest();
    for (let call: WaitingCall | undefined = first; call !== undefined; call = this.#calls.first) {
      if (occupancy.isFree && this.#parts.loopTurn.isLong)
        return this.#freeAfterLoopTurn(occupancy);
      const isOther = this.mode === 'permit' && this.#suitsNobody(termsOf(occupancy.lease.token));
      if (isOther || !occupancy.mayServe(call.options, call.since)) {
        if (occupancy.isOccupied) return this.#partWith(occupancy);
        return occupancy.requeue(call.since);
      }
      const hold = occupancy.handOut(call.options, call.isOneOfSeveral);
      if (hold !== undefined) this.#serve(call, hold);
      if (hold !== undefined && this.mode === 'permit') return this.#partWith(occupancy);
      if (hold === undefined || this.mode !== 'shared') break;
    }
    return Promise.resolve(true);
  }

  /** Leaves the lease to the calls inside, and requests another one for those that wait. */
  #partWith(occupancy: Occupancy): Promise<boolean> {
    occupancy.part();
    this.#parted ??= new Map();
    this.#parted.set(occupancy.lease, occupancy);
    this.#occupancy = undefined;
    this.#proceed();
    return Promise.resolve(true);
  }

  /** Lets the event loop turn first, to read messages of other processes that may want the key. */
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
    if (this.mode !== 'exclusive') return;
    this.#calls.refuseAllAtEnd();
    if (!this.isEmpty) this.#occupancy?.expectCall();
    this.#tellAll('local'); // last, because a subscriber may do anything
  }

  /**
   * Called after any change: offers an open lease to the first call, or requests a lease if a call wants one.
   *
   * No lease is requested while remains of an earlier attempt may still be in the store, which would treat them as
   * another holder: the new attempt would wait for its own process.
   */
  #proceed(store = this.#store): void {
    const call = this.#calls.first;
    if (call !== undefined && this.#occupancy?.isOpen === true) {
      void this.onFree().catch(() => {}); // already reported
      return;
    }
    if (this.#request !== undefined || this.#occupancy !== undefined) return;
    if (call === undefined) {
      this.#parts.scheduler.cancel(this);
      if (this.#parted === undefined || this.#parted.size === 0) this.#onEmpty(this);
      return;
    }
    if (this.scheduled !== undefined) return; // pausing after a failure
    const stuckBy = this.#parts.cleanUp.stuckBy(this.key);
    if (stuckBy !== undefined) return this.#awaitCleanUp(stuckBy);
    const position = this.#position;
    this.#position = undefined;
    const nowait = call.atEnd && this.#calls.size === 1;
    this.#request = new LeaseRequest(this.#parts, this.key, this);
    void this.#request.ask(store, nowait, position);
  }

  /** Waits until the remains of an earlier attempt are gone from the store. */
  #awaitCleanUp(cause: LockStoreError): void {
    this.#failure = cause;
    if (this.#awaitsCleanUp) return;
    this.#awaitsCleanUp = true;
    this.#parts.cleanUp.whenSettled(this.key, () => {
      this.#awaitsCleanUp = false;
      this.#proceed();
    });
  }

  /** Called when the pause after a failure is over. */
  onDue(): void {
    this.#proceed();
  }

  // ---- calls that end without the key -----------------------------------------------------------------------

  /**
   * A wait ends in two steps. When `waitMs` is over and an answer is in flight, the call waits a little longer for that
   * answer. When this grace is over too, the call gives up, unless a blocked event loop may have left the answer
   * unread.
   *
   * If no answer is in flight, the call is refused at once, but the last call of a queue makes a last try.
   */
  timedOut(call: WaitingCall): void {
    this.#calls.overdue(call, (late) => this.#waitIsOver(late));
  }

  #waitIsOver(call: WaitingCall): void {
    const now = this.#parts.clock.now();
    if (call.atEnd) return call.graceGoesOn(now) ? this.#calls.lookLater(call) : this.#giveUp(call);
    this.#calls.startGrace(call, now);
    const state = this.#request?.state;
    if (state === 'asking' || state === 'leaving') return; // the answer in flight decides
    if (this.#isConfirming) return; // the answer to the renewal decides
    if (state === 'waiting' && this.#calls.size === 1) return this.#request?.tryOnceMore();
    this.#calls.refuse(call, this.failure);
    this.#settle();
  }

  /**
   * Refuses a call whose answer is overdue. If the answer still grants the lease, another call gets it, or it is
   * released.
   */
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

  deadlocked(call: WaitingCall, error: LockDeadlockError): boolean {
    if (call.atEnd) return false; // the answer in flight decides
    this.#calls.reject(call, error);
    this.#settle();
    return true;
  }

  /** At shutdown: rejects the waiting calls and releases an unused lease. */
  close(): void {
    this.#isClosed = true;
    const reason = 'the application is shutting down';
    this.#calls.rejectAll(
      () => new LockAbortedError(`Waiting for lock '${this.key}' was ended: ${reason}`, this.key),
    );
    this.#stopAwaiting();
    // A lease being confirmed is released now, because nothing would wait for the next attempt to renew it.
    if (this.#occupancy?.lease.state === 'confirming')
      void this.#occupancy.lease.release().catch(() => {}); // reported
    else this.#occupancy?.giveUp();
    this.#settle();
  }

  #settle(): void {
    this.#leaveIfUnwanted();
    this.#proceed();
  }

  #leaveIfUnwanted(): void {
    if (this.isEmpty || this.#suitsNobody(this.#request?.terms)) this.#request?.leave();
  }

  // ---- what the request and the lease report ----------------------------------------------------------------

  granted(from: object, grant: LeaseGrant): void {
    this.#detach(from);
    const isPermit = this.mode === 'permit';
    const Kind = this.mode === 'shared' ? SharedOccupancy : SoleOccupancy;
    this.#occupancy = new Kind(this.#parts, this.key, this, grant, this.#hasWaited, isPermit);
    this.#hasWaited = false;
    this.#answered();
    this.#occupancy.lease.start();
  }

  /** Refuses calls whose wait is over, because somebody else has the key; the others keep waiting. */
  mustWait(): void {
    this.#hasWaited = true;
    this.#answered();
    this.#stopAwaiting();
    this.#calls.refuseAllAtEnd();
    this.#tellAll('store');
    if (this.mode === 'permit') this.#leaveIfUnwanted();
  }

  permitsDiffer(othersPermits: number): void {
    if (this.isEmpty) return;
    const { key, label } = this;
    const { permits } = this.terms;
    // The call that asked may have given up meanwhile.
    if (permits === undefined || permits === othersPermits) return;
    const of = { key, label, template: templateOf(key, this.#next.template) };
    reportDifferingPermits(this.#parts, { ...of, permits, othersPermits });
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
   * Refuses calls whose wait is over, or all calls if a retry cannot help. The others retry after a pause, from the
   * same position in the store's queue.
   */
  storeFailed(from: object, { cause, isLasting = false }: Unknown, position?: number): void {
    this.#failure = cause;
    this.#position = position;
    this.#calls.refuseEach((call) => call.atEnd || isLasting, cause);
    this.#detach(from);
    if (this.isEmpty) return this.#proceed();
    this.#parts.scheduler.schedule(this, this.#parts.clock.now() + this.#retryPause.next());
  }

  /** Refuses the calls that want a lease this short. The next call may get it; without one, it is released. */
  answersTooSlowly(cause: LockStoreError, leaseMs: number): void {
    this.#failure = undefined;
    this.#calls.refuseEach((call) => call.options.leaseMs <= leaseMs, cause);
    void this.onFree().catch(() => {}); // already reported
  }

  over(from: object, position?: number): void {
    if (this.#parted?.delete(from) === true) return this.#proceed();
    if (!this.#detach(from)) return;
    this.#position = position;
    this.#proceed();
  }

  askAgain(from: object): LeaseRequest {
    this.#detach(from);
    this.#request = new LeaseRequest(this.#parts, this.key, this);
    return this.#request;
  }

  /** @returns false if the queue has already abandoned it */
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

  /** Called when messages may have been lost, or the server may have changed or be reachable again. */
  lookAgain(): void {
    this.#request?.lookAgain();
    for (const occupancy of this.occupancies()) occupancy.lookAgain();
    if (this.scheduled === undefined) return;
    this.#parts.scheduler.cancel(this);
    this.#proceed();
  }
}
