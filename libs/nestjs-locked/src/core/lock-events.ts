import type { LockLostError, LockStoreError } from './lock.errors.js';

/** What happens besides the results of calls, for the log. None of these is thrown into anybody's work. */
export type LockEvent =
  /** A hold ended before its work; its signal has aborted. */
  | { readonly type: 'lost'; readonly key: string; readonly error: LockLostError }
  /** A renewal was refused or not answered; it is repeated while the lease lasts. Told once per series of failures. */
  | {
      readonly type: 'renewal-unknown';
      readonly key: string;
      readonly remainingMs: number;
      readonly cause: LockStoreError;
      /** The part of the store that has the key is away, and that was told. */
      readonly isAway: boolean;
    }
  /**
   * A release was not answered; it is tried again, and the lease ends on its own at the latest. For `keepMs` more the
   * key was to stay taken; if that is longer than the lease lasts, others may get the key before that is over.
   */
  | {
      readonly type: 'release-unknown';
      readonly key: string;
      readonly cause: LockStoreError;
      /** 0 if the lease lasts for as long as the key is to stay taken. */
      readonly keepMs: number;
      /** As with `renewal-unknown`. */
      readonly isAway: boolean;
    }
  /** The work has ended, but not all calls that joined its hold, or transactions: the lock is kept until they have. */
  | { readonly type: 'outlived'; readonly key: string; readonly by: 'calls' | 'transaction' }
  /** A transaction's COMMIT was not answered: its lock is not released, and the lease runs out. */
  | { readonly type: 'commit-unknown'; readonly key: string; readonly remainingMs: number }
  /**
   * A time-out of the database would end the process: nothing listens to the clients of a connection. Told at start.
   */
  | { readonly type: 'unguarded-clients'; readonly connection: string }
  /**
   * Under a lock whose service has a fence there, something was, or may have been, written outside of a transaction.
   * Told once for each connection.
   */
  | { readonly type: 'unfenced-statement'; readonly key: string; readonly connection: string }
  /**
   * Under a lock whose service has a fence, no transaction was opened, and one that knew of no lock was committed
   * meanwhile: it may be the one of the lock, if the async context was lost. Told once for each connection.
   */
  | { readonly type: 'unfenced-lock'; readonly key: string; readonly connection: string }
  /** The store cannot be reached. Told once, and again if the reason is another one. */
  | { readonly type: 'store-lost'; readonly cause: LockStoreError }
  | { readonly type: 'store-back'; readonly awayMs: number }
  /** No message reaches this process, although the store can be reached. Told as `store-lost` is. */
  | { readonly type: 'inbox-lost'; readonly cause: LockStoreError }
  | { readonly type: 'inbox-back'; readonly awayMs: number }
  /** The store refuses something that the locks need, and did not at the start. Told as `store-lost` is. */
  | { readonly type: 'rights-lost'; readonly cause: LockStoreError }
  | { readonly type: 'rights-back'; readonly awayMs: number }
  /** A connection that had been idle was dead, and was made anew in time. No call failed because of that. */
  | { readonly type: 'connection-replaced'; readonly cause: LockStoreError }
  /** The store may drop leases: it is set to evict keys when its memory is full. */
  | { readonly type: 'eviction'; readonly policy: string };

export type ReportLockEvent = (event: LockEvent) => void;
