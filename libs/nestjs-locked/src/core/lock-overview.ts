import type { LockKeyError } from './lock.errors.js';
import type { LockInfo, LockWait } from './lock-info.js';

/** The method of a lock service that the dashboard calls. */
export const LOCK_OVERVIEW = Symbol.for('nestjs-locked/LockOverview');

/** All locks at one moment, of all processes. */
export interface LockOverview {
  /** How many keys are taken. */
  readonly held: number;
  /** How many wait, counted as in `LockInfo`. */
  readonly waiting: number;
  /** How long the first of them has waited; 0 if none waits. */
  readonly oldestWaitMs: number;
  /** The most wanted keys, of which the one that was waited for longest comes first, and then those held longest. */
  readonly locks: readonly OverviewLock[];
  /**
   * Asks which calls hold the most wanted of these keys now, and what they wait for, of the processes that answer
   * within a second.
   * @throws LockStoreError
   */
  readonly ask: () => Promise<AskedHolders>;
  /** There are more keys than are looked at, which are missing in the numbers. */
  readonly isPartial: boolean;
}

/** What the processes have said. */
export interface AskedHolders {
  /** What the calls wait for that hold a key which others want. */
  readonly waits: readonly LockWait[];
  /** The lock with the call that has it now, if its process has said so. */
  readonly present: <Info extends LockInfo>(lock: Info) => Info;
}

/** A lock, of whose queue only the calls of this process are named, and of whose readers only the first. */
export interface OverviewLock extends LockInfo {
  /** How long the first of those that wait has waited; 0 if none waits. */
  readonly oldestWaitMs: number;
  /** How many leases have it: one, or those of all readers, of which only the first is named. */
  readonly leases: number;
}

/** A lock service, as the dashboard sees it. */
export interface HasLockOverview {
  /**
   * @param patterns as in `LockService.list` @param most how many locks of each are named
   * @returns what each pattern has found, in one look, or why it can match no key @throws LockStoreError
   */
  [LOCK_OVERVIEW](
    patterns: readonly string[],
    most: number,
  ): Promise<(LockOverview | LockKeyError)[]>;
}

export function hasLockOverview(value: unknown): value is HasLockOverview {
  return typeof (value as Partial<HasLockOverview> | null)?.[LOCK_OVERVIEW] === 'function';
}
