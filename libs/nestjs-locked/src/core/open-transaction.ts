import type { Hold } from './hold.js';
import type { ReportLockEvent } from './lock-events.js';
import type { Section } from './lock-scope.js';
import type { ResolvedLockOptions } from './lock.options.js';
import type { TransactionRules } from './transaction.options.js';

/** What a call asks for. */
export interface LockRequest {
  readonly keys: readonly string[];
  readonly options: ResolvedLockOptions;
  /** Who asks, for messages: `StockService.take`. */
  readonly caller: string;
}

/** A lock service, as a transaction sees it. */
export interface TransactionalLocks {
  readonly transactionRules: TransactionRules;
  readonly report: ReportLockEvent;
  /** The holds that the present async context has got by itself, without those that its transaction keeps. */
  heldHere(): readonly Hold[];
  /** Takes the keys, and joins those that the context holds already. */
  take(keys: readonly string[], options: ResolvedLockOptions): Promise<readonly Section[]>;
  /** Takes the keys, runs the work with them as the current ones, releases. */
  holding<T>(
    keys: readonly string[],
    options: ResolvedLockOptions,
    work: () => Promise<T>,
  ): Promise<T>;
}

/** The innermost open transaction of an async context, as a lock service sees it. */
export interface OpenTransaction {
  /**
   * Takes locks inside the transaction, if that is safe, and keeps them until it has ended.
   * @throws LockInTransactionError if it is not safe
   */
  take(locks: TransactionalLocks, request: LockRequest): Promise<readonly Section[]>;
  /**
   * Keeps holds that somebody else has acquired until the transaction has ended, and guards its commit with them.
   * @throws LockInTransactionError if the transaction may have read before they were acquired
   */
  adopt(locks: TransactionalLocks, holds: readonly Hold[], caller: string): Promise<void>;
  /** What it, and the transactions around it, keep for this service. */
  keptSections(locks: TransactionalLocks): readonly Section[];
}

/** Knows the open transactions of this process. Without an adapter for an ORM there is none. */
export interface TransactionCoordinator {
  /** The innermost open transaction of the present async context. */
  current(): OpenTransaction | undefined;
}

interface Ambience {
  /** Every open lock service of this process: a transaction asks all of them for what they hold. */
  readonly locks: Set<TransactionalLocks>;
  coordinator?: TransactionCoordinator;
}

/** One for the process: transactions are opened by code that knows of no lock service, and by other copies of this package. */
const AMBIENCE = Symbol.for('nestjs-locked/Ambience');

const ambience = ((globalThis as { [AMBIENCE]?: Ambience })[AMBIENCE] ??= { locks: new Set() });

/** Undefined if there is none, or nobody can tell because no adapter is in use. */
export function currentTransaction(): OpenTransaction | undefined {
  return ambience.coordinator?.current();
}

/** Whether an adapter makes transactions known at all. */
export function seesTransactions(): boolean {
  return ambience.coordinator !== undefined;
}

/** The services whose holds a beginning transaction must look for. */
export function locksInUse(): ReadonlySet<TransactionalLocks> {
  return ambience.locks;
}

/** @returns undoes it */
export function joinAmbience(locks: TransactionalLocks): () => void {
  ambience.locks.add(locks);
  return () => void ambience.locks.delete(locks);
}

/** @returns the coordinator of this process; made by the first adapter that needs it */
export function sharedCoordinator<C extends TransactionCoordinator>(make: () => C): C {
  ambience.coordinator ??= make();
  return ambience.coordinator as C;
}
