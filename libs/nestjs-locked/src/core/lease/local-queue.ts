import { LockAbortedError, LockStoreError } from '../lock.errors.js';
import type { Unknown } from '../store/lock-store.js';
import { RetryPause } from '../store/retry-pause.js';
import type { Scheduled } from '../time/scheduler.js';
import type { EngineParts } from './engine-parts.js';
import type { Hold } from './hold.js';
import type { LeaseGrant } from './lease-grant.js';
import { LeaseRequest } from './lease-request.js';
import type { Acquires, LeaseUser, NextRequest, RequestUser } from './lease-user.js';
import { Lease } from './lease.js';
import { abortedError, WaitingCall, type CallTerms, type CallUser } from './waiting-call.js';

/**
 * The calls of this process that want the same key, first come, first served. Only their queue as a whole stands in the
 * store's queue: one lease is asked for, and given to one call after another.
 *
 * The queue alone decides who is next. There are two moments for that: a call has come or gone (`#proceed`), and the
 * lease has become free (`onFree`). Everything else is told to it by the request or the lease (`RequestUser`,
 * `LeaseUser`) and changes what it has: a request, a lease, or neither. It never has both.
 */
export class LocalQueue implements CallUser, RequestUser, LeaseUser, Scheduled {
  place: Scheduled['place'];
  readonly key: string;
  readonly #parts: EngineParts;
  /** Called when nobody is left and no lease is out. */
  readonly #onEmpty: (queue: LocalQueue) => void;
  /** In order of arrival; a Set, because those in the middle leave too. */
  readonly #calls = new Set<WaitingCall>();
  #request: LeaseRequest | undefined;
  #lease: Lease | undefined;
  /** Why the store could not be asked; until it answers again. */
  #failure: LockStoreError | undefined;
  readonly #retryPause = new RetryPause();
  /** Where we stood in the store's queue before the last request or lease was over. */
  #score: number | undefined;
  #awaitsCleanUp = false;
  #isClosed = false;

  constructor(parts: EngineParts, key: string, onEmpty: (queue: LocalQueue) => void) {
    this.#parts = parts;
    this.key = key;
    this.#onEmpty = onEmpty;
  }

  get #first(): WaitingCall | undefined {
    for (const call of this.#calls) return call;
    return undefined;
  }

  /** Whether a single try that comes now would find somebody here before it. */
  get isTaken(): boolean {
    // A request that is on its way for nobody any more answers the one who comes now.
    if (!this.isEmpty || this.#request?.state === 'waiting') return true;
    return this.#lease !== undefined && this.#lease.state !== 'idle';
  }

  /** An attempt to get the lease is under way. */
  get isAsking(): boolean {
    return this.#request !== undefined;
  }

  /** The store could not be asked, and has not answered since. */
  get isFailing(): boolean {
    return this.#failure !== undefined;
  }

  get isEmpty(): boolean {
    return this.#calls.size === 0;
  }

  get lease(): Lease | undefined {
    return this.#lease;
  }

  /** @param store who carries out the first command, if one is needed. @default the lock store */
  enter({ options, isPart }: Omit<CallTerms, 'key'>, store?: Acquires): Promise<Hold> {
    const { signal } = options;
    if (signal?.aborted === true) {
      this.#proceed(); // nobody may have come to stay
      return Promise.reject(abortedError(this.key, signal));
    }
    const terms = { key: this.key, options, isPart };
    const call = new WaitingCall(terms, this.#parts.clock.now(), this);
    if (call.atEnd && this.isTaken) {
      this.#refuse(call);
      return call.promise;
    }
    this.#calls.add(call);
    this.#parts.scheduler.schedule(call, call.dueAt);
    this.#proceed(store);
    return call.promise;
  }

  // ---- who is next ------------------------------------------------------------------------------------------

  onFree(): Promise<boolean> {
    const lease = this.#lease as Lease;
    const call = this.#first;
    if (call === undefined) return this.#isClosed ? lease.release() : lease.rest();
    if (!lease.mayServe(call.options)) return lease.requeue(call.options.leaseMs);
    const hold = lease.handOut(call.options, call.isPart);
    if (hold !== undefined) this.#serve(call, hold);
    return Promise.resolve(true);
  }

  #serve(call: WaitingCall, hold: Hold): void {
    this.#remove(call);
    this.#failure = undefined;
    call.resolve(hold);
    this.#refuseAllAtEnd(); // the answer that they waited for
  }

  /**
   * Something has changed: offers an idle lease to the first call, or asks for a lease if there is none and somebody
   * wants it. The key is not asked for while something is still in the store that an earlier attempt may have left: the
   * store could take that for another holder, and the new attempt would wait for itself.
   */
  #proceed(store: Acquires = this.#parts.store): void {
    const call = this.#first;
    if (call !== undefined && this.#lease?.state === 'idle') {
      void this.onFree().catch(() => {}); // reported
      return;
    }
    if (this.#request !== undefined || this.#lease !== undefined) return;
    if (call === undefined) {
      this.#parts.scheduler.cancel(this);
      return this.#onEmpty(this);
    }
    if (this.place !== undefined) return; // pausing after a failure
    if (this.#parts.cleanUp.isStuck(this.key)) return this.#awaitCleanUp();
    const score = this.#score;
    this.#score = undefined;
    const nowait = call.atEnd && this.#calls.size === 1;
    this.#request = this.#newRequest(call.options.leaseMs);
    void this.#request.ask(store, nowait, score);
  }

  #newRequest(leaseMs: number): LeaseRequest {
    return new LeaseRequest(this.#parts, this.key, this, leaseMs);
  }

  /** Our next attempt must not meet what an earlier one has left. */
  #awaitCleanUp(): void {
    this.#failure ??= new LockStoreError(
      'Redis has not answered an earlier command for this key yet',
      this.key,
    );
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
   * Two steps: when the wait is over, an answer that is on its way may still come for a moment, and decides. Whoever
   * waits for nothing of the kind, or has waited for it in vain, is refused. The last one here asks the store once more.
   */
  timedOut(call: WaitingCall): void {
    const now = this.#parts.clock.now();
    if (call.atEnd && !call.extendGrace(now)) return this.#giveUp(call);
    if (!call.atEnd) call.startGrace(now);
    this.#parts.scheduler.schedule(call, call.dueAt);
    const state = this.#request?.state;
    if (state === 'asking' || state === 'leaving') return; // the answer on its way decides
    if (this.#lease?.state === 'confirming') return; // likewise
    if (state === 'waiting' && this.#calls.size === 1) return this.#request?.tryOnceMore();
    this.#refuse(call);
    this.#settle();
  }

  /** The answer is overdue. If it still comes and is a grant, the lease is released. */
  #giveUp(call: WaitingCall): void {
    this.#failure ??= new LockStoreError('Redis has not answered yet', this.key);
    this.#refuse(call);
    this.#settle();
  }

  aborted(call: WaitingCall): void {
    this.#remove(call);
    call.reject(abortedError(this.key, call.options.signal));
    this.#settle();
  }

  /** The application closes: nobody is served any more, and an unused lease is released. */
  close(): void {
    this.#isClosed = true;
    for (const call of [...this.#calls]) {
      this.#remove(call);
      call.reject(
        new LockAbortedError(
          `Waiting for lock '${this.key}' was ended: the application is shutting down`,
          this.key,
        ),
      );
    }
    this.#lease?.giveUp();
    this.#settle();
  }

  #settle(): void {
    if (this.isEmpty) this.#request?.leave();
    this.#proceed();
  }

  #refuse(call: WaitingCall): void {
    this.#remove(call);
    call.refuse(this.#parts.clock.now(), this.#failure);
  }

  #refuseAllAtEnd(): void {
    for (const call of [...this.#calls]) if (call.atEnd) this.#refuse(call);
  }

  #remove(call: WaitingCall): void {
    this.#calls.delete(call);
    this.#parts.scheduler.cancel(call);
  }

  // ---- what the request and the lease tell ------------------------------------------------------------------

  granted(from: object, grant: LeaseGrant): void {
    if (this.#request === from) this.#request = undefined;
    this.#lease = new Lease(this.#parts, this.key, this, grant);
    this.#answered();
    this.#lease.start();
  }

  /** Those whose time is over are told that somebody else has the key; the others wait. */
  mustWait(): void {
    this.#answered();
    this.#refuseAllAtEnd();
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
    this.#score = undefined;
  }

  /** Those who may still wait try again after a pause, from the same place in the store's queue. */
  storeFailed(from: object, { cause, isLasting = false }: Unknown, score?: number): void {
    this.#failure = cause;
    this.#score = score;
    for (const call of [...this.#calls]) if (call.atEnd || isLasting) this.#refuse(call);
    this.#detach(from);
    if (this.isEmpty) return this.#proceed();
    this.#parts.scheduler.schedule(this, this.#parts.clock.now() + this.#retryPause.next());
  }

  over(from: object, score?: number): void {
    if (!this.#detach(from)) return;
    this.#score = score;
    this.#proceed();
  }

  askAgain(from: object, leaseMs: number): NextRequest {
    this.#detach(from);
    this.#request = this.#newRequest(leaseMs);
    return this.#request;
  }

  #detach(from: object): boolean {
    if (from === this.#request) this.#request = undefined;
    else if (from === this.#lease) this.#lease = undefined;
    else return false;
    return true;
  }

  /** Messages may have been lost, or the server may be another one, or there again. */
  lookAgain(): void {
    this.#request?.lookAgain();
    this.#lease?.lookAgain();
    if (this.place === undefined) return;
    this.#parts.scheduler.cancel(this);
    this.#proceed();
  }
}
