import { LockCommitUnknownError } from '../../core/lock.errors.js';
import type { Hold } from '../../core/queue/hold.js';
import { quoted } from '../../core/runtime/quoted.js';
import type { GuardingHold } from './guarding-hold.js';

const WHAT_TO_DO =
  'leave the locked call, take the lock again as soon as it is free, check the data, and repeat the work only if it is missing';

/** @param cause the driver's error; undefined if the database did not answer in time */
export function commitUnknown(holds: readonly Hold[], cause: unknown): LockCommitUnknownError {
  const why = cause instanceof Error ? cause.message : 'no answer in time';
  return new LockCommitUnknownError(
    `Cannot tell whether the transaction under ${named(holds)} was committed: the database has not answered its COMMIT (${why}); ${WHAT_TO_DO}`,
    holds[0]?.key,
    cause === undefined ? undefined : { cause },
  );
}

/**
 * Refuses a transaction under a hold after a commit in doubt, because it might repeat committed work.
 * @throws LockCommitUnknownError
 */
export function assertNoDoubt(holds: readonly GuardingHold[]): void {
  for (const { hold } of holds) {
    const { doubt } = hold;
    if (doubt === undefined) continue;
    throw new LockCommitUnknownError(
      `Cannot open a transaction under ${named([hold])}: it is unknown whether an earlier one under it was committed, and this one could repeat it; ${WHAT_TO_DO}`,
      hold.key,
      { cause: doubt },
    );
  }
}

function named(holds: readonly Hold[]): string {
  const keys = holds.map(({ key }) => quoted(key)).join(', ');
  return holds.length === 1 ? `lock ${keys}` : `the locks ${keys}`;
}
