import type { Hold } from '../queue/hold.js';
import type {
  OpenTransaction,
  TransactionalLocks,
  TransactionCoordinator,
} from './open-transaction.js';
import type { ReentryLevel } from './reentry-level.js';

interface TransactionRegistry {
  /** Every open lock service of this process: a transaction asks all of them for their holds. */
  readonly open: Set<TransactionalLocks>;
  /**
   * Those that were closed while locks of theirs were in use. The work under such a lock keeps its service in memory; a
   * lock that is never released must not.
   */
  readonly closed: Set<WeakRef<TransactionalLocks>>;
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
  open: new Set(),
  closed: new Set(),
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

/** The services that are open. */
export function openLocks(): ReadonlySet<TransactionalLocks> {
  return registry.open;
}

/** The services whose holds a new transaction must look up: those that are open, and what was left of others. */
export function locksInUse(): TransactionalLocks[] {
  const inUse = [...registry.open];
  for (const one of registry.closed) {
    const locks = one.deref();
    if (locks === undefined) registry.closed.delete(one);
    else inUse.push(locks);
  }
  return inUse;
}

/** @returns a function to call when they are closed, which returns one to call when none of them is in use any more */
export function registerLocks(locks: TransactionalLocks): () => () => void {
  registry.open.add(locks);
  return () => {
    const closed = new WeakRef(locks);
    registry.closed.add(closed);
    registry.open.delete(locks);
    return () => void registry.closed.delete(closed);
  };
}

/** @returns the coordinator of this process, created by the first adapter that needs it */
export function sharedCoordinator<C extends TransactionCoordinator>(make: () => C): C {
  registry.coordinator ??= make();
  return registry.coordinator as C;
}
