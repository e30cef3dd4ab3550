import type { Hold } from '../queue/hold.js';
import type {
  OpenTransaction,
  TransactionalLocks,
  TransactionCoordinator,
} from './open-transaction.js';
import type { ReentryLevel } from './reentry-level.js';

interface TransactionRegistry {
  /** Every open lock service of this process: a transaction asks all of them for what they hold. */
  readonly locks: Set<TransactionalLocks>;
  coordinator?: TransactionCoordinator;
}

/**
 * There is one for the whole process, because transactions are opened by code that knows of no lock service, and by
 * other copies of this package.
 */
const TRANSACTION_REGISTRY = Symbol.for('nestjs-locked/TransactionRegistry');

const registry = ((globalThis as { [TRANSACTION_REGISTRY]?: TransactionRegistry })[
  TRANSACTION_REGISTRY
] ??= {
  locks: new Set(),
});

/** Undefined if there is none, or if nobody can tell because no adapter is in use. */
export function currentTransaction(): OpenTransaction | undefined {
  return registry.coordinator?.current();
}

/** @returns an empty list if no adapter is in use */
export function keptLevels(locks: TransactionalLocks): readonly ReentryLevel[] {
  return registry.coordinator?.kept(locks) ?? [];
}

/** Whether the hold lasts until the end of a transaction that is open here. */
export function isGuardedHere(hold: Hold): boolean {
  return registry.coordinator?.guards(hold) ?? false;
}

/** Whether the hold lasts until the end of a transaction that is open, wherever that is. */
export function isGuardedAnywhere(hold: Hold): boolean {
  return registry.coordinator?.guardsAnywhere(hold) ?? false;
}

/** @param holds what a call has acquired itself, whose work was not run in a transaction and has ended */
export function workEnded(locks: TransactionalLocks, holds: readonly Hold[]): void {
  registry.coordinator?.workEnded(locks, holds);
}

/** Whether an adapter makes transactions known at all. */
export function seesTransactions(): boolean {
  return registry.coordinator !== undefined;
}

/** The services whose holds a beginning transaction must look for. */
export function locksInUse(): ReadonlySet<TransactionalLocks> {
  return registry.locks;
}

/** @returns a function that undoes it */
export function registerLocks(locks: TransactionalLocks): () => void {
  registry.locks.add(locks);
  return () => void registry.locks.delete(locks);
}

/** @returns the coordinator of this process; made by the first adapter that needs it */
export function sharedCoordinator<C extends TransactionCoordinator>(make: () => C): C {
  registry.coordinator ??= make();
  return registry.coordinator as C;
}
