import type { Hold } from '../queue/hold.js';
import type {
  OpenTransaction,
  TransactionalLocks,
  TransactionCoordinator,
} from './open-transaction.js';
import type { ReentryLevel } from './reentry-level.js';

interface TransactionRegistry {
  /** Every open lock service of this process: a transaction asks all of them for their holds. */
  readonly locks: Set<TransactionalLocks>;
  coordinator?: TransactionCoordinator;
}

/**
 * One for the whole process, because transactions are opened by code without a lock service, and by other copies of
 * this package.
 */
const TRANSACTION_REGISTRY = Symbol.for('nestjs-locked/TransactionRegistry');

const registry = ((globalThis as { [TRANSACTION_REGISTRY]?: TransactionRegistry })[
  TRANSACTION_REGISTRY
] ??= {
  locks: new Set(),
});

/** Undefined if there is none, or if no adapter is in use. */
export function currentTransaction(): OpenTransaction | undefined {
  return registry.coordinator?.current();
}

/** @returns an empty list if no adapter is in use */
export function keptLevels(locks: TransactionalLocks): readonly ReentryLevel[] {
  return registry.coordinator?.kept(locks) ?? [];
}

/** Whether a transaction open in this context keeps the hold until its end. */
export function isGuardedHere(hold: Hold): boolean {
  return registry.coordinator?.guards(hold) ?? false;
}

/** Whether any open transaction keeps the hold until its end. */
export function isGuardedAnywhere(hold: Hold): boolean {
  return registry.coordinator?.guardsAnywhere(hold) ?? false;
}

/** @param holds acquired by a call whose work has ended outside a transaction */
export function workEnded(locks: TransactionalLocks, holds: readonly Hold[]): void {
  registry.coordinator?.workEnded(locks, holds);
}

/** Whether an adapter makes transactions known. */
export function seesTransactions(): boolean {
  return registry.coordinator !== undefined;
}

/** The services whose holds a new transaction must look up. */
export function locksInUse(): ReadonlySet<TransactionalLocks> {
  return registry.locks;
}

/** @returns a function that unregisters them */
export function registerLocks(locks: TransactionalLocks): () => void {
  registry.locks.add(locks);
  return () => void registry.locks.delete(locks);
}

/** @returns the coordinator of this process, created by the first adapter that needs it */
export function sharedCoordinator<C extends TransactionCoordinator>(make: () => C): C {
  registry.coordinator ??= make();
  return registry.coordinator as C;
}
