import { LockCommitUnknownError, LockInTransactionError } from '../../core/lock.errors.js';
import { systemClock } from '../../core/time/clock.js';
import type { TransactionStatus } from '../sql/database-session.js';
import { isNotUnderstood, isOfFailedTransaction, isRefusedCommit } from '../sql/sql-error.js';
import { transactionGone } from '../sql/transaction-gone.js';
import { commitUnknown } from './commit-doubt.js';
import type { CommitGate } from './commit-gate.js';
import { CommitWait } from './commit-wait.js';
import { type CommitProgress, outcomeOfFailedCommit } from './failed-commit.js';
import type { TransactionOutcome } from './transaction-outcome.js';
import { gateUnanswered } from './unanswered-gate.js';

/** How long to wait for a ROLLBACK after an unanswered gate if the connection could not be closed. */
const ROLLBACK_MS = 5_000;

/** Receives the answer to a COMMIT. @throws if the answer says that nothing was committed */
export type NoteAnswer = (error: unknown, command?: unknown) => void;

/** The COMMIT of one transaction: whether it may be sent, its progress, and its outcome. */
export class WatchedCommit {
  readonly #gate: CommitGate;
  readonly #close: () => void;
  readonly #wait: CommitWait;
  /** Undefined if its statements are not seen. */
  #progress: CommitProgress | undefined;
  /** Whether other statements follow it in its text, to which an error may belong. */
  #isFollowed = false;
  /** Whether a ROLLBACK, or another ending than COMMIT, was sent after the body. */
  #isRolledBack = false;
  #veto: Error | undefined;
  #driverError: unknown;
  /** Set if it had no effect on the transaction. */
  #notUnderstood: Error | undefined;
  #onOverdue: (error: Error) => void = () => {};
  /** Set while the gate is being passed. */
  #closeGate: ((error: Error) => void) | undefined;
  #cancelRollback: () => void = () => {};

  /** @param close closes the connection of the transaction */
  constructor(gate: CommitGate, close: () => void) {
    this.#gate = gate;
    this.#close = close;
    this.#wait = new CommitWait(
      () => gate.holds.keys(),
      () => this.#isOverdue(),
    );
  }

  /**
   * Passes the gate, which may have to query the database, and waits no longer than for the answer to a COMMIT. The
   * query may never be answered, because the connection has died silently or is blocked by an unread stream.
   *
   * @throws if the COMMIT is forbidden; the connection is closed after too long a wait
   */
  async passGate(): Promise<void> {
    const passed = this.#gate.pass();
    this.#wait.begin();
    try {
      await new Promise<void>((resolve, reject) => {
        this.#closeGate = reject;
        passed.then(resolve, reject);
      });
    } finally {
      this.#closeGate = undefined;
      this.#wait.end();
    }
  }

  /** Called when the gate has been passed. @param isSeen whether the statement will come through `sending` */
  expect(isSeen: boolean): void {
    this.#progress = isSeen ? 'not-sent' : undefined;
    if (!isSeen) this.#wait.begin();
  }

  /**
   * Called when it is sent, possibly after hooks of the application that ran since the gate.
   *
   * @param sql its text
   * @param status what the driver knows of the transaction
   * @param isFollowed whether other statements follow it in the text
   * @throws whatever forbids it
   */
  sending(sql: string, status: TransactionStatus | undefined, isFollowed: boolean): NoteAnswer {
    if (this.#progress === 'answered') return () => {}; // another transaction, of a hook
    this.assertMayBeSent(status);
    this.#wait.begin();
    this.#progress = 'sent';
    this.#isFollowed ||= isFollowed;
    return (error, command) => {
      this.#wait.end();
      if (error !== undefined) {
        this.#noteError(error, sql);
        return;
      }
      if (command === 'ROLLBACK') throw (this.#veto = transactionGone());
      this.#progress = 'answered';
    };
  }

  #noteError(error: unknown, sql: string): void {
    if (this.#progress === 'answered') return; // it belongs to a hook
    if (isNotUnderstood(error, sql)) {
      this.#progress = 'not-sent';
      this.#notUnderstood = error as Error;
    } else {
      this.#driverError ??= error;
    }
  }

  /**
   * Like `sending`, but before hooks and the driver.
   * @throws if it is already forbidden
   */
  assertMayBeSent(status: TransactionStatus | undefined): undefined {
    if (this.#progress === 'answered') return; // another transaction, of a hook
    if (this.#veto !== undefined) throw this.#veto;
    try {
      this.#gate.assertHeld();
      if (status === 'failed' || status === 'none' || this.#isRolledBack) throw transactionGone();
    } catch (error) {
      this.#veto = error as Error;
      throw error;
    }
  }

  /** @throws if a hook has ended the transaction before the COMMIT */
  assertNotRolledBack(): void {
    if (this.#isRolledBack && this.#progress === 'not-sent') throw transactionGone();
  }

  /** Called when it waits for the answers to other statements on its connection, for at most as long as for its own. */
  waitsForTurn(): void {
    if (this.#progress === 'not-sent') this.#wait.begin();
  }

  /** Forbids the COMMIT, whatever the state of its locks. @throws the error */
  refuse(error: Error): never {
    throw (this.#veto = error);
  }

  get isRolledBack(): boolean {
    return this.#isRolledBack;
  }

  /** Whether neither COMMIT nor ROLLBACK was sent, provided that both are seen. */
  get isUnsent(): boolean {
    return !this.#isRolledBack && this.#progress !== 'sent' && this.#progress !== 'answered';
  }

  /** The error that refused it in flight; a ROLLBACK may have been sent instead. */
  get veto(): Error | undefined {
    return this.#veto;
  }

  get progress(): CommitProgress | undefined {
    return this.#progress;
  }

  /** Whether it is in flight, or was refused and a ROLLBACK is in flight instead. */
  get isSent(): boolean {
    return this.#progress === 'sent' || this.#veto !== undefined;
  }

  /**
   * Whether a statement sent now may come after the COMMIT, outside any transaction, or may invalidate the gate
   * unnoticed.
   *
   * @param ofBody whether its code belongs to the finished body, which has not awaited it; hooks may work after the
   * COMMIT
   * @param tellsRollback whether a COMMIT answered with ROLLBACK is detected
   */
  comesTooLate(ofBody: boolean, tellsRollback: boolean): boolean {
    if (this.#gate.holds.size === 0) return false;
    if (this.#progress === 'sent') return true;
    if (this.#veto !== undefined) return ofBody;
    return ofBody && (this.#progress === 'answered' || !tellsRollback);
  }

  /** Called when a ROLLBACK, or another ending than COMMIT, is sent after the body. */
  rollingBack(): void {
    this.#isRolledBack = true;
  }

  /**
   * Called when the opening code reports success.
   *
   * @returns the outcome
   * @throws the error that forbade the COMMIT, or the database's refusal, even if that was swallowed ·
   * LockCommitUnknownError if it was not answered, or if neither COMMIT nor ROLLBACK was sent: the transaction may
   * still be open, and be committed by the next user of its connection
   */
  succeeded(): TransactionOutcome {
    if (this.#veto !== undefined) throw this.#veto;
    if (this.#gate.holds.size === 0) return 'committed';
    if (this.#progress === 'sent') {
      if (this.#isRefused) throw this.#driverError;
      throw this.#unknown(this.#driverError ?? new Error('its answer was not awaited'));
    }
    if (this.#progress !== 'not-sent') return 'committed';
    if (this.#isRolledBack) return 'rolled-back';
    if (this.#notUnderstood !== undefined) throw this.#notUnderstood;
    this.#progress = undefined; // its outcome is unknown
    throw this.#unknown(new Error('it was not sent'));
  }

  #unknown(cause: unknown): LockCommitUnknownError {
    return commitUnknown([...this.#gate.holds.keys()], cause);
  }

  /** @param onOverdue receives the error if it is not answered while the leases last */
  whenOverdue(onOverdue: (error: Error) => void): void {
    this.#onOverdue = onOverdue;
  }

  #isOverdue(): void {
    this.#close();
    const loss = this.#lossBeforeSending();
    if (this.#closeGate === undefined) {
      this.#onOverdue(loss ?? this.#unknown(undefined));
      return;
    }
    const error = (this.#veto = gateUnanswered([...this.#gate.holds.keys()], loss));
    this.#closeGate(error);
    this.#cancelRollback = systemClock.after(ROLLBACK_MS, () => this.#onOverdue(error));
  }

  #lossBeforeSending(): Error | undefined {
    if (this.#progress !== 'not-sent' && this.#closeGate === undefined) return undefined;
    try {
      return this.assertMayBeSent(undefined);
    } catch (error) {
      return error as Error;
    }
  }

  /**
   * Called when the transaction has failed.
   *
   * @param error the error that the opening code got
   * @param isDone whether its body was done, so that the COMMIT may have failed
   * @returns the outcome, and the error for its caller
   */
  failed(error: unknown, isDone: boolean): { outcome: TransactionOutcome; told: unknown } {
    this.#wait.end();
    if (this.#veto !== undefined) {
      return { outcome: 'rolled-back', told: isDone ? this.#veto : error };
    }
    const outcome = isDone ? this.#outcome(error) : 'rolled-back';
    if (isDone && this.#isRefused && error instanceof LockInTransactionError) {
      return { outcome, told: this.#driverError }; // later statements were refused because of it
    }
    return { outcome, told: outcome === 'unknown' ? (this.doubt(error) ?? error) : error };
  }

  /**
   * Called when the opening code opens another transaction without reporting the outcome of this one.
   *
   * @param mayBeCommitted whether it may count as committed if no COMMIT was seen
   * @returns as `failed`; the error is undefined if the transaction ran under no lock
   */
  succeededBy(mayBeCommitted: boolean): { outcome: TransactionOutcome; told: unknown } {
    const isWatched = this.#progress !== undefined && this.#gate.holds.size > 0;
    if (mayBeCommitted && !isWatched && this.#veto === undefined)
      return { outcome: 'unknown', told: this.doubt(new Error('it was opened again')) };
    const isSent = this.#progress === 'sent' || this.#progress === 'answered';
    return this.failed(undefined, isSent);
  }

  #outcome(error: unknown): TransactionOutcome {
    if (this.#isRefused) return 'rolled-back';
    if (this.#progress === 'sent' && this.#isFollowed) return 'unknown';
    return outcomeOfFailedCommit(error, this.#progress);
  }

  /**
   * Whether the COMMIT was refused. A statement that fails because the transaction had already failed also prevents the
   * COMMIT in its text.
   */
  get #isRefused(): boolean {
    const error = this.#driverError;
    return this.#isFollowed ? isOfFailedTransaction(error) : isRefusedCommit(error);
  }

  /** The error for a commit in doubt; undefined if the transaction ran under no lock. */
  doubt(error: unknown): LockCommitUnknownError | undefined {
    if (this.#gate.holds.size === 0) return undefined;
    if (error instanceof LockCommitUnknownError) return error;
    return this.#unknown(this.#driverError ?? error);
  }

  end(): void {
    this.#wait.end();
    this.#cancelRollback();
  }
}
