import type { TransactionalLocks } from '../../core/calls/open-transaction.js';
import type { LockCommitUnknownError } from '../../core/lock.errors.js';
import type { Hold } from '../../core/queue/hold.js';
import { ClaimConflict } from '../fence/fence.js';
import type { DatabaseSession } from '../sql/database-session.js';
import type { GuardingHold } from './guarding-hold.js';
import { TransactionGuard } from './transaction-guard.js';

/**
 * What stands between the body of a transaction and its COMMIT: every hold under which it runs must have been claimed,
 * and must still be held. A claim that has failed keeps the gate closed, even if the body swallows the error.
 */
export class CommitGate {
  readonly #guard: TransactionGuard;
  #failure: Error | undefined;

  constructor(connection: string, session: DatabaseSession | undefined) {
    this.#guard = new TransactionGuard(connection, session);
  }

  guards(hold: Hold): boolean {
    return this.#guard.has(hold);
  }

  hasClaimed(locks: TransactionalLocks, key: string): boolean {
    return this.#guard.hasClaimed(locks, key);
  }

  /** Those of these holds that still have to be claimed, perhaps once more. */
  missing(holds: readonly GuardingHold[]): readonly GuardingHold[] {
    const undone = this.#guard.claimedInSavepoint(holds);
    return holds.filter((one) => !this.guards(one.hold) || undone.includes(one));
  }

  /** Whether a statement was sent for it: some statements can only be the first of a transaction. */
  get hasSpoken(): boolean {
    return this.#guard.hasSpoken;
  }

  /** Before the first statement of the body. */
  async begin(holds: readonly GuardingHold[]): Promise<void> {
    try {
      await this.#guard.begin(holds);
    } catch (error) {
      this.#failure ??= error as Error;
      throw error;
    }
  }

  /**
   * Later, while the body runs.
   *
   * @param isInSavepoint asked where a claim is sent
   * @throws whatever makes it unsafe to continue under these holds
   */
  async add(holds: readonly GuardingHold[], isInSavepoint?: () => boolean): Promise<void> {
    try {
      await this.#guard.add(holds, isInSavepoint);
    } catch (error) {
      // The body has begun, so nothing repeats it because a claim has met another one.
      const cause = error instanceof ClaimConflict ? error.cause : error;
      this.#failure ??= cause as Error;
      throw cause;
    }
  }

  /** The body is done. @throws whatever forbids the COMMIT: the transaction is rolled back then */
  async pass(): Promise<void> {
    if (this.#failure !== undefined) throw this.#failure;
    const holds = [...this.holds].map(([hold, locks]) => ({ locks, hold }));
    const undone = this.#guard.claimedInSavepoint(holds);
    if (undone.length > 0) await this.add(undone);
    await this.#guard.assertCanCommit();
  }

  /** The gate has let it pass a while ago, and now its COMMIT is sent. @throws LockLostError */
  assertHeld(): void {
    this.#guard.assertHeld();
  }

  /** The holds under which the transaction runs. */
  get holds(): ReadonlyMap<Hold, TransactionalLocks> {
    return this.#guard.holds;
  }

  /**
   * The transaction has ended, and keeps its holds no longer.
   * @param doubt nobody knows whether it was committed: the keys end with their leases
   * @param bodyRuns the work continues without the transaction, and must not believe that it is locked
   */
  end(doubt: LockCommitUnknownError | undefined, bodyRuns: boolean): void {
    if (doubt !== undefined) this.#guard.commitUnknown(doubt);
    if (bodyRuns) this.#guard.loseHolds();
    this.#guard.release();
  }
}
