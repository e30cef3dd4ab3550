import type { LockStoreError } from '../lock.errors.js';
import type { AcquireCommand, AcquireReply, Unknown } from '../store/lock-store.js';
import type { LeaseGrant } from './lease-grant.js';

/**
 * What a lease, and the request for one, report to the queue of calls that want the key. Neither knows the queue or the
 * calls in it: only the queue decides which call is next.
 *
 * `from` is the request or lease that reports. The queue ignores one that it has left behind.
 */
export interface KeyUser {
  /** Whether no call wants the key any more. */
  readonly isEmpty: boolean;
  /** The store was asked for this key and did not answer; it is asked again. */
  storeFails(cause: LockStoreError): void;
  /**
   * It is over, and nobody knows what is true in the store.
   * @param position in the store's queue, for the next request to claim
   */
  storeFailed(from: object, unknown: Unknown, position: number | undefined): void;
  /** It is over. @param position in the store's queue, for the next request to claim */
  over(from: object, position?: number): void;
}

/** The queue, as its request for a lease sees it. */
export interface RequestUser extends KeyUser {
  /** Another process has the key: the request stands in the store's queue. */
  mustWait(): void;
  /** A single try, or the last one of a wait, did not get the key. */
  notAcquired(from: object): void;
  /** The store has granted the lease. */
  granted(from: object, grant: LeaseGrant): void;
}

/** Carries out a first command: the store does, or an object that sends the commands for several keys as one. */
export interface Acquires {
  acquire(command: AcquireCommand): Promise<AcquireReply>;
}
