import type { TransactionalLocks } from '../../core/calls/open-transaction.js';
import type { LockCommitUnknownError } from '../../core/lock.errors.js';
import type { Hold } from '../../core/queue/hold.js';
import { ClaimConflict } from '../fence/fence.js';
import type { DatabaseSession } from '../sql/database-session.js';
import type { GuardingHold } from './guarding-hold.js';
import { TransactionGuard } from './transaction-guard.js';

/**
 * The gate between the body of a transaction and its COMMIT: every hold under which it runs must be claimed and still
 * held. A failed claim keeps the gate closed, even if the body swallows the error.
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

  /** The holds that still have to be claimed, possibly again. */
  missing(holds: readonly GuardingHold[]): readonly GuardingHold[] {
    const undone = this.#guard.claimedInSavepoint(holds);
    return holds.filter((one) => !this.guards(one.hold) || undone.includes(one));
  }

  /** Whether the gate has sent a statement, because some statements must be the first of a transaction. */
  get hasSpoken(): boolean {
    return this.#guard.hasSpoken;
  }

  /** Called before the first statement of the body. */
  async begin(holds: readonly GuardingHold[]): Promise<void> {
    try {
      await this.#guard.begin(holds);
    } catch (error) {
      this.#failure ??= error as Error;
      throw error;
    }
  }

  /**
   * Called later, while the body runs.
   *
   * @param isInSavepoint called where a claim is sent
   * @throws if it is unsafe to continue under these holds
   */
  async add(holds: readonly GuardingHold[], isInSavepoint?: () => boolean): Promise<void> {
    try {
      await this.#guard.add(holds, isInSavepoint);
    } catch (error) {
      // The body has begun, so it is not repeated after a conflict of claims.
      const cause = error instanceof ClaimConflict ? error.cause : error;
      this.#failure ??= cause as Error;
      throw cause;
    }
  }

  /** Called when the body is done. @throws if the COMMIT is forbidden, after which the transaction is rolled back */
  async pass(): Promise<void> {
    if (this.#failure !== undefined) throw this.#failure;
    const holds = [...this.holds].map(([hold, locks]) => ({ locks, hold }));
    const undone = this.#guard.claimedInSavepoint(holds);
    if (undone.length > 0) await this.add(undone);
    await this.#guard.assertCanCommit();
  }

  /** Called when the COMMIT is sent, some time after the gate. @throws LockLostError */
  assertHeld(): void {
    this.#guard.assertHeld();
  }

  /** The holds under which the transaction runs. */
  get holds(): ReadonlyMap<Hold, TransactionalLocks> {
    return this.#guard.holds;
  }

  /**
   * Called when the transaction has ended and no longer keeps its holds.
   * @param doubt set if the outcome is unknown: the keys stay taken until their leases expire
   * @param bodyRuns whether the work continues without the transaction, and must learn that it is not locked any more
   */
  end(doubt: LockCommitUnknownError | undefined, bodyRuns: boolean): void {
    if (doubt !== undefined) this.#guard.commitUnknown(doubt);
    if (bodyRuns) this.#guard.loseHolds();
    this.#guard.release();
  }
}
