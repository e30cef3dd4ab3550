import type { LockLostReason, LockStoreError } from '../lock.errors.js';
import type { LatestAnswers } from './latest-answers.js';
import type { LeaseRequest } from './lease-request.js';
import type { KeyUser } from './request-user.js';

/** The queue, as its lease sees it. */
export interface LeaseUser extends KeyUser {
  /** How long the store took for its latest answers about the key, also for the leases before this one. */
  readonly answers: LatestAnswers;
  /**
   * No call has the lease: it has just been granted or confirmed, or its hold has ended. The queue hands it to the next
   * call, or decides what becomes of it.
   * @returns whether the lease was ours until now
   */
  onFree(): Promise<boolean>;
  /**
   * The store takes so long to answer that a lease of this length, or a shorter one, can never be handed out. The lease
   * is still ours, and free.
   */
  answersTooSlowly(cause: LockStoreError, leaseMs: number): void;
  /** The lease is going to be released and asked for again in one command. @returns the request that asks */
  askAgain(from: object, leaseMs: number): LeaseRequest;
}

/** Who is inside, as the lease sees it. */
export interface LeaseOccupancy {
  /** Whether a call has the lease, or still works under it although it was lost. */
  readonly isOccupied: boolean;
  /** When the present hold has lasted long enough, or the lease has rested for long enough, on the monotonic clock. */
  readonly dueAt: number;
  onDue(): void;
  /** How long the present hold may last, in milliseconds, whatever becomes of the lease. */
  holdLeftMs(): number;
  /** Another process wants the key. */
  wanted(): void;
  /** The lease is lost while a call is inside. */
  lost(reason: LockLostReason): void;
}
