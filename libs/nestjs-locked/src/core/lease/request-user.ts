import type { LockStoreError } from '../lock.errors.js';
import type { KeyTerms } from '../lock-mode.js';
import type { AcquireCommand, AcquireReply, Unknown } from '../store/lock-store.js';
import type { LeaseGrant } from './lease-grant.js';

/**
 * The events that a lease, and a request for one, report to the queue of calls that want the key. Neither knows the
 * queue or its calls: only the queue decides which call is next.
 *
 * `from` is the reporting request or lease. The queue ignores one that it has abandoned.
 */
export interface KeyUser {
  /** Whether no call wants the key. */
  readonly isEmpty: boolean;
  /** The store did not answer a command for this key, which is retried. */
  storeFails(cause: LockStoreError): void;
  /**
   * The request or lease is over, and the state of the store is unknown.
   * @param position in the store's queue, for the next request to claim
   */
  storeFailed(from: object, unknown: Unknown, position: number | undefined): void;
  /** The request or lease is over. @param position in the store's queue, for the next request to claim */
  over(from: object, position?: number): void;
}

/** The queue, as its request for a lease sees it. */
export interface RequestUser extends KeyUser {
  /** The label of the call that is next. */
  readonly label: string | undefined;
  /** How the call that is next wants the key. */
  readonly terms: KeyTerms;
  /** How long its lease is to last once it is renewed, in milliseconds. */
  readonly leaseMs: number;
  /** The same until it is renewed for the first time, which is shorter with `firstLeaseMs`. */
  readonly firstMs: number;
  /** Another process has the key, and the request is in the store's queue. */
  mustWait(): void;
  /** Whoever has a permit of the key counts another number of them than the call that is next. */
  permitsDiffer(permits: number): void;
  /** A single try, or the last try of a wait, did not get the key. */
  notAcquired(from: object): void;
  /** The store has granted the lease. */
  granted(from: object, grant: LeaseGrant): void;
}

/** Executes a first command: the store, or an object that sends the commands for several keys as one. */
export interface Acquires {
  acquire(command: AcquireCommand): Promise<AcquireReply>;
}
