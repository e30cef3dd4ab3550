import { WaitingCall, type CallerEnd } from './waiting-call.js';
import type { Hold } from './hold.js';
import { LeaseRequest } from './lease-request.js';
import type { Lease } from './lease.js';
import type { EngineParts } from './engine-parts.js';
import type { AcquireCommand, AcquireReply, RequeueReply, Unknown } from '../store/lock-store.js';
import { LockAbortedError, LockNotAcquiredError, LockStoreError } from '../lock.errors.js';
import type { ResolvedLockOptions } from '../lock.options.js';
import type { Scheduled } from '../time/scheduler.js';

const FIRST_RETRY_MS = 100;
const SLOWEST_RETRY_MS = 1_000;

/**
 * The callers of this process who want the same key, first come, first served. Only their queue as a whole stands
 * in the store's queue: one lease is asked for, and passed on among them.
 */
export class LocalQueue implements CallerEnd, Scheduled {
  place: Scheduled['place'];
  readonly key: string;
  readonly #parts: EngineParts;
  /** Called when nobody is left and no lease is out. */
  readonly #onEmpty: (queue: LocalQueue) => void;
  /** In order of arrival; a Set, because those in the middle leave too. */
  readonly #callers = new Set<WaitingCall>();
  /** What the callers wait for: an attempt to get the lease, or its present holder. One of the two, or none. */
  #request: LeaseRequest | undefined;
  #lease: Lease | undefined;
  /** Why the store could not be asked; until it answers again. */
  #failure: LockStoreError | undefined;
  #retryMs = FIRST_RETRY_MS;
  /** Where we stood in the store's queue before it failed. */
  #score: number | undefined;
  #awaitsCleanUp = false;
  #isClosed = false;

  constructor(parts: EngineParts, key: string, onEmpty: (queue: LocalQueue) => void) {
    this.#parts = parts;
    this.key = key;
    this.#onEmpty = onEmpty;
  }

  get first(): WaitingCall | undefined {
    for (const caller of this.#callers) return caller;
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
    return this.#callers.size === 0;
  }

  get isClosed(): boolean {
    return this.#isClosed;
  }

  get lease(): Lease | undefined {
    return this.#lease;
  }

  /**
   * @param isPart whether the call waits for other keys, too
   * @param acquire sends the first command, if one is needed. @default the store's own
   */
  enter(
    options: ResolvedLockOptions,
    isPart: boolean,
    acquire: (command: AcquireCommand) => Promise<AcquireReply> = (command) =>
      this.#parts.store.acquire(command),
  ): Promise<Hold> {
    const { signal } = options;
    if (signal?.aborted === true) {
      this.#proceed(); // nobody may have come to stay
      return Promise.reject(this.#abortedError(signal));
    }
    const caller = new WaitingCall(options, isPart, this.#parts.clock.now(), this);
    if (caller.atEnd && this.isTaken) {
      this.#refuse(caller);
      return caller.promise;
    }
    this.#callers.add(caller);
    this.#parts.scheduler.schedule(caller, caller.dueAt);
    this.#proceed(acquire);
    return caller.promise;
  }

  // ---- the callers' side ------------------------------------------------------------------------------------

  timedOut(caller: WaitingCall): void {
    const now = this.#parts.clock.now();
    if (caller.atEnd && !caller.extendGrace(now)) return this.#giveUp(caller);
    if (!caller.atEnd) caller.startGrace(now);
    this.#parts.scheduler.schedule(caller, caller.dueAt);
    const state = this.#request?.state;
    if (state === 'asking' || state === 'leaving') return; // the answer on its way decides
    if (this.#lease?.state === 'confirming') return; // likewise
    if (state === 'waiting' && this.#callers.size === 1) return this.#request?.tryOnceMore();
    this.#refuse(caller);
    this.#settle();
  }

  /** The answer is overdue. If it still comes and is a grant, the lease is given back. */
  #giveUp(caller: WaitingCall): void {
    this.#failure ??= new LockStoreError('Redis has not answered yet', this.key);
    this.#refuse(caller);
    this.#settle();
  }

  aborted(caller: WaitingCall): void {
    this.#remove(caller);
    caller.reject(this.#abortedError(caller.options.signal));
    this.#settle();
  }

  #abortedError(signal: AbortSignal | undefined): LockAbortedError {
    const cause: unknown = signal?.reason;
    return new LockAbortedError(`Waiting for lock '${this.key}' was aborted`, this.key, { cause });
  }

  /** The application closes: nobody is served any more, and an unused lease is given back. */
  close(): void {
    this.#isClosed = true;
    for (const caller of [...this.#callers]) {
      this.#remove(caller);
      caller.reject(
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

  #refuse(caller: WaitingCall): void {
    this.#remove(caller);
    caller.reject(
      this.#failure === undefined
        ? this.#busyError(caller)
        : this.#storeError(caller, this.#failure),
    );
  }

  #refuseAllAtEnd(): void {
    for (const caller of [...this.#callers]) if (caller.atEnd) this.#refuse(caller);
  }

  #remove(caller: WaitingCall): void {
    this.#callers.delete(caller);
    this.#parts.scheduler.cancel(caller);
  }

  #busyError(caller: WaitingCall): LockNotAcquiredError {
    const { waitMs } = caller.options;
    return new LockNotAcquiredError(
      `Lock '${this.key}' was not acquired within ${waitMs} ms: somebody else holds it`,
      this.key,
      this.#waitedMs(caller),
    );
  }

  #storeError(caller: WaitingCall, cause: LockStoreError): LockStoreError {
    return new LockStoreError(
      `Cannot lock '${this.key}': the lock store has failed for the ${this.#waitedMs(caller)} ms that were waited: ${cause.message}`,
      this.key,
      { cause },
    );
  }

  #waitedMs(caller: WaitingCall): number {
    return Math.round(this.#parts.clock.now() - caller.since);
  }

  // ---- the lease's side -------------------------------------------------------------------------------------

  granted(request: LeaseRequest, lease: Lease): void {
    if (this.#request === request) this.#request = undefined;
    this.#lease = lease;
    this.#answered();
  }

  handOut(caller: WaitingCall, hold: Hold): void {
    this.#remove(caller);
    this.#failure = undefined;
    caller.resolve(hold);
    this.#refuseAllAtEnd(); // the answer that they waited for
  }

  /** The key is held by another process: whose time is over is told so, the others wait. */
  mustWait(): void {
    this.#answered();
    this.#refuseAllAtEnd();
  }

  /** A single try, or a last one, did not get it. */
  notAcquired(request: LeaseRequest): void {
    this.mustWait();
    this.over(request);
  }

  /** The store does not answer, and is asked again. Whose time is over meanwhile is told so. */
  storeFails(cause: LockStoreError): void {
    this.#failure = cause;
  }

  #answered(): void {
    this.#failure = undefined;
    this.#retryMs = FIRST_RETRY_MS;
    this.#score = undefined;
  }

  /** Nobody knows what happened in the store; those who may still wait try again, from the same place. */
  storeFailed(
    from: LeaseRequest | Lease,
    { cause, isLasting = false }: Unknown,
    score: number | undefined,
  ): void {
    this.#failure = cause;
    this.#score = score;
    for (const caller of [...this.#callers]) if (caller.atEnd || isLasting) this.#refuse(caller);
    this.#detach(from);
    if (this.isEmpty) return this.#proceed();
    this.#parts.scheduler.schedule(this, this.#parts.clock.now() + this.#retryMs);
    this.#retryMs = Math.min(this.#retryMs * 2, SLOWEST_RETRY_MS);
  }

  /** @param score a place in the store's queue that the next attempt may claim */
  over(from: LeaseRequest | Lease, score?: number): void {
    if (!this.#detach(from)) return;
    this.#score = score;
    this.#proceed();
  }

  /** The lease is handed over, and asked for again in the same command. @returns its reply */
  requeue(
    lease: Lease,
    leaseMs: number,
    send: (newToken: string) => Promise<RequeueReply>,
  ): Promise<RequeueReply> {
    if (this.#lease === lease) this.#lease = undefined;
    const request = new LeaseRequest(this.#parts, this, leaseMs);
    this.#request = request;
    return new Promise((resolve) => {
      request.send(async (token) => {
        const reply = await send(token);
        resolve(reply);
        return reply;
      });
    });
  }

  #detach(from: LeaseRequest | Lease): boolean {
    if (from === this.#request) this.#request = undefined;
    else if (from === this.#lease) this.#lease = undefined;
    else return false;
    return true;
  }

  /** The pause after a failure is over. */
  onDue(): void {
    this.#proceed();
  }

  /** Messages may have been lost, or the server may be another one, or there again. */
  lookAgain(): void {
    this.#request?.lookAgain();
    this.#lease?.lookAgain();
    if (this.place === undefined) return;
    this.#parts.scheduler.cancel(this);
    this.#proceed();
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

  #proceed(
    acquire = (command: AcquireCommand): Promise<AcquireReply> =>
      this.#parts.store.acquire(command),
  ): void {
    const { first } = this;
    if (first !== undefined && this.#lease?.state === 'idle') return this.#lease.reuse(first);
    if (this.#request !== undefined || this.#lease !== undefined) return;
    if (first === undefined) {
      this.#parts.scheduler.cancel(this);
      return this.#onEmpty(this);
    }
    if (this.place !== undefined) return; // pausing after a failure
    if (this.#parts.cleanUp.isStuck(this.key)) return this.#awaitCleanUp();
    const score = this.#score;
    this.#score = undefined;
    const { leaseMs } = first.options;
    const nowait = first.atEnd && this.#callers.size === 1;
    this.#request = new LeaseRequest(this.#parts, this, leaseMs);
    this.#request.send((token) => {
      const command = { key: this.key, token, leaseMs, nowait };
      return acquire(score === undefined ? command : { ...command, score });
    }, score);
  }
}
