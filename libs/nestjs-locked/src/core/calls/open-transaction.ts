import type { ReportLockEvent } from '../lock-events.js';
import type { Hold } from '../queue/hold.js';
import type { ResolvedLockOptions } from '../resolved.options.js';
import type { ResolvedTransactionOptions } from '../transaction.options.js';
import type { ReentryLevel } from './reentry-level.js';

/** The keys that a call requests. */
export interface AskedLocks {
  readonly keys: readonly string[];
  readonly options: ResolvedLockOptions;
  /** The caller's name in messages: `StockService.take`. */
  readonly callSite: string;
}

/** A lock service, as a transaction sees it. */
export interface TransactionalLocks {
  /** The name of the service, if there are several. */
  readonly name: string | undefined;
  readonly transactionOptions: ResolvedTransactionOptions;
  readonly report: ReportLockEvent;
  /** Transactions take and claim the keys of several services in the order of these strings. */
  readonly orderedBy: string;
  /** The name of the key in a fence table. */
  fenceKey(key: string): string;
  /** The holds that the current async context has acquired itself, without those that its transaction keeps. */
  heldHere(): readonly Hold[];
  /** The same, and lost holds whose calls are still running: no transaction may be opened under them. */
  openHere(): readonly Hold[];
  /**
   * The holds that it is known to have acquired with `acquire()` and not released, even if they were lost since; none
   * of them is current.
   */
  acquiredHere(): readonly Hold[];
  /** Takes the keys, and joins those that the context already holds. */
  take(keys: readonly string[], options: ResolvedLockOptions): Promise<readonly ReentryLevel[]>;
  /** Called for each taken key that a transaction keeps. @returns a function to call once it is released */
  keep(): () => void;
  /**
   * Takes the keys for calls inside the work, runs it with them as the current ones, and releases them.
   * @param work receives the acquired holds
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
   * @throws LockInTransactionError if it is not safe · TransactionRestart if the transaction starts again with the
   * locks
   */
  take(locks: TransactionalLocks, request: AskedLocks): Promise<readonly ReentryLevel[]>;
  /**
   * Keeps holds that were acquired elsewhere until the transaction has ended, and guards its commit with them.
   * @throws as `take`
   */
  adopt(locks: TransactionalLocks, holds: readonly Hold[], callSite: string): Promise<void>;
  /** Runs the work of a locked call, which the transaction awaits before it ends. @throws as `take` */
  during<T>(keys: readonly string[], work: () => T | Promise<T>): Promise<T>;
}

/** Knows the open transactions of this process. Exists only with an adapter for an ORM. */
export interface TransactionCoordinator {
  /** The innermost open transaction of the current async context. */
  current(): OpenTransaction | undefined;
  /** The levels that the open transactions of this context, including suspended ones, keep for the service. */
  kept(locks: TransactionalLocks): readonly ReentryLevel[];
  /** Whether an open transaction of this context keeps the hold until its end. */
  guards(hold: Hold): boolean;
  /** Whether any open transaction keeps the hold. */
  guardsAnywhere(hold: Hold): boolean;
  /**
   * Called when the work of a call outside a transaction has ended.
   * @param holds the holds acquired by the call itself
   */
  workEnded(locks: TransactionalLocks, holds: readonly Hold[]): void;
}
