import { Caller, type CallerEnd } from './caller.js';
import type { Hold } from './hold.js';
import { Lease } from './lease.js';
import type { LockContext } from './lock-context.js';
import { LockAbortedError, LockNotAcquiredError, LockStoreError } from './lock.errors.js';
import type { ResolvedLockOptions } from './lock.options.js';
import type { Scheduled } from './scheduler.js';

const FIRST_RETRY_MS = 100;
const SLOWEST_RETRY_MS = 1_000;

/**
 * The callers of this process who want the same key, first come, first served. Only their queue as a whole stands
 * in the store's queue: one lease is asked for, and passed on among them.
 */
export class LocalQueue implements CallerEnd, Scheduled {
  place: Scheduled['place'];
  readonly key: string;
  readonly #context: LockContext;
  /** Called when nobody is left and no lease is out. */
  readonly #onEmpty: (queue: LocalQueue) => void;
  /** In order of arrival; a Set, because those in the middle leave too. */
  readonly #callers = new Set<Caller>();
  /** The attempt, or the lease, on which the callers wait. */
  #lease: Lease | undefined;
  /** Why the store could not be asked; until it answers again. */
  #failure: LockStoreError | undefined;
  #retryMs = FIRST_RETRY_MS;
  /** Where we stood in the store's queue before it failed. */
  #score: number | undefined;

  constructor(context: LockContext, key: string, onEmpty: (queue: LocalQueue) => void) {
    this.#context = context;
    this.key = key;
    this.#onEmpty = onEmpty;
  }

  get first(): Caller | undefined {
    for (const caller of this.#callers) return caller;
    return undefined;
  }

  get isEmpty(): boolean {
    return this.#callers.size === 0;
  }

  get lease(): Lease | undefined {
    return this.#lease;
  }

  enter(options: ResolvedLockOptions): Promise<Hold> {
    const caller = new Caller(options, this.#context.clock.now(), this);
    if (caller.atEnd && (this.#lease !== undefined || !this.isEmpty)) {
      this.#refuse(caller);
      return caller.promise;
    }
    this.#callers.add(caller);
    this.#context.scheduler.schedule(caller, caller.dueAt);
    this.#proceed();
    return caller.promise;
  }

  // ---- the callers' side ------------------------------------------------------------------------------------

  timedOut(caller: Caller): void {
    caller.atEnd = true;
    const state = this.#lease?.state;
    if (state === 'asking' || state === 'leaving') return; // the answer on its way decides
    if (state === 'waiting' && this.#callers.size === 1) return this.#lease?.tryOnceMore();
    this.#refuse(caller);
    this.#settle();
  }

  aborted(caller: Caller): void {
    const cause: unknown = caller.options.signal?.reason;
    this.#remove(caller);
    caller.reject(
      new LockAbortedError(`Waiting for lock '${this.key}' was aborted`, this.key, { cause }),
    );
    this.#settle();
  }

  /** The application closes: nobody is served any more. */
  close(): void {
    for (const caller of [...this.#callers]) {
      this.#remove(caller);
      caller.reject(
        new LockAbortedError(
          `Waiting for lock '${this.key}' was ended: the application is shutting down`,
          this.key,
        ),
      );
    }
    this.#settle();
  }

  #settle(): void {
    if (this.isEmpty) this.#lease?.leave();
    this.#proceed();
  }

  #refuse(caller: Caller): void {
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

  #remove(caller: Caller): void {
    this.#callers.delete(caller);
    this.#context.scheduler.cancel(caller);
  }

  #busyError(caller: Caller): LockNotAcquiredError {
    const waitedMs = Math.round(this.#context.clock.now() - caller.since);
    return new LockNotAcquiredError(
      `Lock '${this.key}' was not acquired within ${caller.options.waitMs} ms: somebody else holds it`,
      this.key,
      waitedMs,
    );
  }

  #storeError(caller: Caller, cause: LockStoreError): LockStoreError {
    const waitedMs = Math.round(this.#context.clock.now() - caller.since);
    return new LockStoreError(
      `Cannot lock '${this.key}': the lock store has failed for the ${waitedMs} ms that were waited: ${cause.message}`,
      this.key,
      { cause },
    );
  }

  // ---- the lease's side -------------------------------------------------------------------------------------

  handOut(caller: Caller, hold: Hold): void {
    this.#remove(caller);
    caller.resolve(hold);
  }

  /** The store answered. */
  answered(): void {
    this.#failure = undefined;
    this.#retryMs = FIRST_RETRY_MS;
    this.#score = undefined;
  }

  /** The key is held by another process: whose time is over is told so, the others wait. */
  mustWait(): void {
    this.answered();
    this.#refuseAllAtEnd();
  }

  /** A single try, or a last one, did not get it. */
  notAcquired(lease: Lease): void {
    this.mustWait();
    this.leaseOver(lease);
  }

  /** Nobody knows what happened in the store; those who may still wait try again, from the same place. */
  storeFailed(lease: Lease, cause: LockStoreError, score: number | undefined): void {
    this.#failure = cause;
    this.#score = score;
    this.#refuseAllAtEnd();
    if (this.#lease === lease) this.#lease = undefined;
    if (this.isEmpty) return this.#proceed();
    this.#context.scheduler.schedule(this, this.#context.clock.now() + this.#retryMs);
    this.#retryMs = Math.min(this.#retryMs * 2, SLOWEST_RETRY_MS);
  }

  /** @param score a place in the store's queue that the next attempt may claim */
  leaseOver(lease: Lease, score?: number): void {
    if (this.#lease !== lease) return;
    this.#lease = undefined;
    this.#score = score;
    this.#proceed();
  }

  /** The pause after a failure is over. */
  onDue(): void {
    this.#proceed();
  }

  #proceed(): void {
    if (this.#lease !== undefined) return;
    const first = this.first;
    if (first === undefined) {
      this.#context.scheduler.cancel(this);
      return this.#onEmpty(this);
    }
    if (this.place !== undefined) return; // pausing after a failure
    const score = this.#score;
    this.#score = undefined;
    this.#lease = new Lease(this.#context, this);
    this.#lease.ask(first.options.leaseMs, first.atEnd && this.#callers.size === 1, score);
  }
}
