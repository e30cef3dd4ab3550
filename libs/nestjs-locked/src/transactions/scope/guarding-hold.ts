import type { TransactionalLocks } from '../../core/calls/open-transaction.js';
import { locksInUse } from '../../core/calls/transaction-registry.js';
import { LockConfigError, LockInTransactionError, LockLostError } from '../../core/lock.errors.js';
import type { Hold } from '../../core/queue/hold.js';

/** A hold under which a transaction runs, and the service that knows it. */
export interface GuardingHold {
  readonly locks: TransactionalLocks;
  readonly hold: Hold;
}

/**
 * The holds of the current async context in all services. Lost holds count too: their calls may have read outdated
 * data, so a transaction under them must be refused, not left unguarded.
 */
export function holdsHere(): GuardingHold[] {
  return locksInUse().flatMap((locks) => locks.openHere().map((hold) => ({ locks, hold })));
}

/**
 * Checks the holds again after a transaction has waited in the queue and for a connection: if the requesting call has
 * ended meanwhile, nothing would guard it.
 *
 * @param holds the holds of the current async context when the transaction was requested
 * @throws LockLostError if one of them is no longer held here
 */
export function assertStillHere(holds: readonly GuardingHold[]): void {
  if (holds.length === 0) return;
  const here = holdsHere();
  const gone = holds.find(({ hold }) => !here.some((one) => one.hold === hold))?.hold;
  if (gone === undefined) return;
  throw new LockLostError(
    `The call that held lock '${gone.key}' ended before its transaction could begin, which would now run without the lock; await the transaction inside the call`,
    gone.key,
    'released',
  );
}

/** The fence of a service, if it has one in the database of the connection. */
export function fenceOn(
  { transactionOptions: { fence } }: TransactionalLocks,
  connection: string,
): { readonly table: string } | undefined {
  return (fence?.connections?.includes(connection) ?? true) ? fence : undefined;
}

/**
 * Whether a transaction on this connection claims the fence of the hold. Among permits, there is no order to enforce.
 */
export function isFenced({ locks, hold }: GuardingHold, connection: string): boolean {
  return !hold.isPermit && fenceOn(locks, connection) !== undefined;
}

/**
 * Refuses a transaction after `acquire()`: its lock is not current in any context, so the transaction would run without
 * the fence that the caller relies on.
 *
 * @param holds the holds known to the transaction
 * @throws LockInTransactionError if this async context has acquired another lock before · LockLostError if that was
 * lost
 */
export function assertNoneAcquired(holds: readonly GuardingHold[], connection: string): void {
  for (const locks of locksInUse()) {
    if (fenceOn(locks, connection) === undefined) continue;
    const acquired = locks
      .acquiredHere()
      .filter((hold) => !holds.some((known) => known.hold === hold));
    acquired.find(({ isOver }) => isOver)?.assertHeld();
    for (const { key } of acquired) {
      throw new LockInTransactionError(
        `Lock '${key}' was taken with acquire(), so a transaction opened now does not know it: its fence would not be claimed, and the commit would not be guarded; open the transaction inside lock.run(() => …), or take the lock with withLock. A lock for the whole life of the application is allowed if it has maxHoldMs: Infinity`,
        key,
      );
    }
  }
}

/**
 * Refuses an unfenced transaction if `fence.connections` has an unknown name, which may be meant for this connection.
 *
 * @throws LockConfigError
 */
export function assertNamesAreKnown(
  { transactionOptions: { fence } }: TransactionalLocks,
  connection: string,
  known: ReadonlySet<string>,
): void {
  const names = fence?.connections;
  if (names === undefined || names.includes(connection)) return;
  const unknown = names.find((name) => !known.has(name));
  if (unknown === undefined) return;
  const list = [...known].map((name) => `'${name}'`).join(', ');
  throw new LockConfigError(
    `A transaction on connection '${connection}' is not opened without the fence: fence.connections names '${unknown}', but the lock-aware connections are ${list}; correct the name, give it as connectionName where the connection is made lock-aware, or make that connection lock-aware before`,
  );
}
