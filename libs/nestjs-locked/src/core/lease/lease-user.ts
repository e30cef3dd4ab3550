import type { LockLostReason, LockStoreError } from '../lock.errors.js';
import type { LatestAnswers } from './latest-answers.js';
import type { LeaseRequest } from './lease-request.js';
import type { KeyUser } from './request-user.js';

/** The queue, as its lease sees it. */
export interface LeaseUser extends KeyUser {
  /** How many calls of this process wait. */
  readonly waiters: number;
  /** How long the store took for its latest answers about the key, including those for earlier leases. */
  readonly answers: LatestAnswers;
  /**
   * Called when no call has the lease: it was just granted or confirmed, or its hold has ended. The queue hands it to
   * the next call, or decides otherwise.
   * @returns whether the lease was ours until now
   */
  onFree(): Promise<boolean>;
  /**
   * Called when the store answers so slowly that a lease of this length, or a shorter one, can never be handed out. The
   * lease is still ours, and free.
   */
  answersTooSlowly(cause: LockStoreError, leaseMs: number): void;
  /** Called when the lease will be released and requested again in one command. @returns the new request */
  askAgain(from: object): LeaseRequest;
}

/** Who is inside, as the lease sees it. */
export interface LeaseOccupancy {
  /** Whether others may have the key at the same time: readers, or permits. */
  readonly isShared: boolean;
  /** Whether another process waits, as far as is known. */
  readonly isWanted: boolean;
  /** Whether a call has the lease, or still works under it after it was lost. */
  readonly isOccupied: boolean;
  /** The label of the call that has the lease, or had it last. */
  readonly label: string | undefined;
  /** The template of its key. */
  readonly template: string;
  /** When the current hold must end, or an idle lease has rested long enough, on the monotonic clock. */
  readonly dueAt: number;
  onDue(): void;
  /** How long the current hold may last, in milliseconds, regardless of the lease. */
  holdLeftMs(): number;
  /** Called when another process wants the key. */
  wanted(): void;
  /** Called when the lease is lost while a call is inside. */
  lost(reason: LockLostReason): void;
}
