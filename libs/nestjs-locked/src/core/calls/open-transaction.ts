import type { ReportLockEvent } from '../lock-events.js';
import type { Hold } from '../queue/hold.js';
import type { ResolvedLockOptions } from '../resolved.options.js';
import type { ResolvedTransactionOptions } from '../transaction.options.js';
import type { ReentryLevel } from './reentry-level.js';

/** What a call asks for. */
export interface AskedLocks {
  readonly keys: readonly string[];
  readonly options: ResolvedLockOptions;
  /** Who asks, for messages: `StockService.take`. */
  readonly callSite: string;
}

/** A lock service, as a transaction sees it. */
export interface TransactionalLocks {
  readonly transactionOptions: ResolvedTransactionOptions;
  readonly report: ReportLockEvent;
  /** Transactions take and claim the keys of several services in the order of these texts. */
  readonly orderedBy: string;
  /** The name of the key in a fence table. */
  fenceKey(key: string): string;
  /** The holds that the present async context has got itself, without those that its transaction keeps. */
  heldHere(): readonly Hold[];
  /** The same, and those that were lost while their calls still run: no transaction may be opened under them. */
  openHere(): readonly Hold[];
  /**
   * The holds that it is known to have got from `acquire()` and not to have released, even if they were lost meanwhile;
   * none of them is current.
   */
  acquiredHere(): readonly Hold[];
  /** Takes the keys, and joins those that the context holds already. */
  take(keys: readonly string[], options: ResolvedLockOptions): Promise<readonly ReentryLevel[]>;
  /**
   * Takes the keys for calls inside of the work, runs it with them as the current ones, and releases them.
   * @param work is given the holds that were acquired
   */
  holding<T>(
    keys: readonly string[],
    options: ResolvedLockOptions,
    work: (acquired: readonly Hold[]) => Promise<T>,
  ): Promise<T>;
}

/** The innermost open transaction of an async context, as a lock service sees it. */
export interface OpenTransaction {
  /**
   * Takes locks inside the transaction, if that is safe, and keeps them until it has ended.
   * @throws LockInTransactionError if it is not safe · TransactionRestart if it begins again with the locks
   */
  take(locks: TransactionalLocks, request: AskedLocks): Promise<readonly ReentryLevel[]>;
  /**
   * Keeps holds that were acquired elsewhere until the transaction has ended, and guards its commit with them.
   * @throws as `take`
   */
  adopt(locks: TransactionalLocks, holds: readonly Hold[], callSite: string): Promise<void>;
  /** Runs the work of a locked call: the transaction does not end before it. @throws as `take` */
  during<T>(keys: readonly string[], work: () => T | Promise<T>): Promise<T>;
}

/** Knows the open transactions of this process. Without an adapter for an ORM there is none. */
export interface TransactionCoordinator {
  /** The innermost open transaction of the present async context. */
  current(): OpenTransaction | undefined;
  /** What the open transactions of this context keep for the service, those that are suspended here included. */
  kept(locks: TransactionalLocks): readonly ReentryLevel[];
  /** Whether an open transaction of this context keeps the hold until its end. */
  guards(hold: Hold): boolean;
  /** Whether any open transaction does. */
  guardsAnywhere(hold: Hold): boolean;
  /**
   * The work of a call has ended that was not run in a transaction.
   * @param holds what the call has acquired itself
   */
  workEnded(locks: TransactionalLocks, holds: readonly Hold[]): void;
}
