import {
  LockCommitUnknownError,
  LockConfigError,
  type LockError,
  LockInTransactionError,
} from '../lock.errors.js';
import type { HandedOverLease } from './hand-off.js';
import { assertMayHandOver } from './only-exclusive.js';
import type { ReentryLevel } from './reentry-level.js';
import { currentTransaction, isGuardedAnywhere } from './transaction-registry.js';

/**
 * Leaves the leases of a call in the store, for this long at least: all of them, or none. A lease that was prolonged in
 * vain belongs to the call as before.
 *
 * @param levels one for each key, none of them released
 * @param assertHeld also throws if the call has released them
 * @throws LockLostError · LockStoreError · LockConfigError · LockInTransactionError · LockCommitUnknownError
 */
export async function detachLevels(
  levels: readonly ReentryLevel[],
  forMs: number,
  assertHeld: () => void,
): Promise<readonly HandedOverLease[]> {
  for (const { hold } of levels) assertMayHandOver(hold, 'detach', hold.key);
  assertMayDetach(levels);
  await Promise.all(levels.map(({ hold }) => hold.whenCertain()));
  assertHeld();
  await Promise.all(levels.map(({ hold }) => hold.prolongToDetach(forMs)));
  assertHeld();
  assertMayDetach(levels); // a call may have joined meanwhile
  return levels.map((level) => ({ key: level.hold.key, ...level.detach() }));
}

function assertMayDetach(levels: readonly ReentryLevel[]): void {
  for (const level of levels) {
    const refusal = refusalOf(level);
    if (refusal !== undefined) throw refusal;
  }
}

function refusalOf({ hold, isRoot, isOfTransaction }: ReentryLevel): LockError | undefined {
  const { key, doubt } = hold;
  const what = `Cannot detach lock '${key}'`;
  const misuse = (why: string): LockConfigError => new LockConfigError(`${what}: ${why}`, key);
  if (doubt !== undefined) {
    const why = 'the outcome of a transaction under it is unknown, so its work cannot go on';
    return new LockCommitUnknownError(`${what}: ${why}: ${doubt.message}`, key, { cause: doubt });
  }
  if (isOfTransaction || isGuardedAnywhere(hold) || currentTransaction() !== undefined) {
    const why =
      'a transaction is open, whose work nobody else can see yet; detach it after the COMMIT';
    return new LockInTransactionError(`${what}: ${why}`, key);
  }
  if (!isRoot) return misuse('this call joined a call around it; detach the lock of that call');
  if (hold.isShared)
    return misuse("it is held with mode: 'shared', beside other readers; hold it exclusively");
  if (hold.isPermit)
    return misuse('it is held with permits, beside other holders; hold it exclusively');
  if (hold.users > 1) return misuse('calls inside that joined it still run; await them first');
  if (hold.isKept)
    return misuse('holdAtLeastMs keeps the key for this call; leave that option out');
  return undefined;
}
