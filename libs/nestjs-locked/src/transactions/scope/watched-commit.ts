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

/** How long a ROLLBACK is waited for if the gate was not answered, where the connection could not be closed. */
const ROLLBACK_MS = 5_000;

/** To be called with the answer to a COMMIT. @throws if the answer says that nothing was committed */
export type NoteAnswer = (error: unknown, command?: unknown) => void;

/** The COMMIT of one transaction: whether it may be sent, how far it got, and what became of it. */
export class WatchedCommit {
  readonly #gate: CommitGate;
  readonly #close: () => void;
  readonly #wait: CommitWait;
  /** Undefined: nobody sees its statements. */
  #progress: CommitProgress | undefined;
  /** Its text has other statements after it: an error in the answer may be theirs. */
  #isFollowed = false;
  /** A ROLLBACK was sent after the body, or what ends the transaction in another way than COMMIT. */
  #isRolledBack = false;
  #veto: Error | undefined;
  #driverError: unknown;
  /** It had no effect: the transaction is as it was before. */
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
   * Passes the gate, which may have to ask the database, and waits no longer than for the answer to a COMMIT. It may
   * never be answered: the connection has died in silence, or works on a stream that nobody reads.
   *
   * @throws whatever forbids the COMMIT; once it was waited for too long, the connection is closed
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

  /** The gate has been passed. @param isSeen whether the statement will come through `sending` */
  expect(isSeen: boolean): void {
    this.#progress = isSeen ? 'not-sent' : undefined;
    if (!isSeen) this.#wait.begin();
  }

  /**
   * It is sent now; since the gate was passed, hooks of the application may have run.
   *
   * @param sql its text
   * @param status what the driver knows of the transaction
   * @param isFollowed whether other statements follow it in its text
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
    if (this.#progress === 'answered') return; // it is that of a hook
    if (isNotUnderstood(error, sql)) {
      this.#progress = 'not-sent';
      this.#notUnderstood = error as Error;
    } else {
      this.#driverError ??= error;
    }
  }

  /**
   * As `sending`, but it is only in flight: hooks run before it reaches the driver.
   * @throws whatever forbids it already
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

  /** @throws if a hook has ended the transaction before it */
  assertNotRolledBack(): void {
    if (this.#isRolledBack && this.#progress === 'not-sent') throw transactionGone();
  }

  /** It waits for the answers to other statements on its connection, and no longer than for its own. */
  waitsForTurn(): void {
    if (this.#progress === 'not-sent') this.#wait.begin();
  }

  /** It must not be sent, in whatever state its locks are. @throws the error */
  refuse(error: Error): never {
    throw (this.#veto = error);
  }

  get isRolledBack(): boolean {
    return this.#isRolledBack;
  }

  /** Whether neither COMMIT nor ROLLBACK was sent, if both are seen. */
  get isUnsent(): boolean {
    return !this.#isRolledBack && this.#progress !== 'sent' && this.#progress !== 'answered';
  }

  /** What has refused it in flight: a ROLLBACK may have been sent in its place. */
  get veto(): Error | undefined {
    return this.#veto;
  }

  get progress(): CommitProgress | undefined {
    return this.#progress;
  }

  /** Whether it is in flight, or was refused, so that a ROLLBACK is in flight in its place. */
  get isSent(): boolean {
    return this.#progress === 'sent' || this.#veto !== undefined;
  }

  /**
   * Whether a statement that is sent now may come after the COMMIT, outside of every transaction, or may undo what the
   * gate has seen without anybody being told.
   *
   * @param ofBody its code belongs to the body, which is done and has not awaited it; hooks may work after the COMMIT
   * @param tellsRollback whether a COMMIT that is answered with ROLLBACK is found out
   */
  comesTooLate(ofBody: boolean, tellsRollback: boolean): boolean {
    if (this.#gate.holds.size === 0) return false;
    if (this.#progress === 'sent') return true;
    if (this.#veto !== undefined) return ofBody;
    return ofBody && (this.#progress === 'answered' || !tellsRollback);
  }

  /** A ROLLBACK is sent after the body, or what ends the transaction in another way than COMMIT. */
  rollingBack(): void {
    this.#isRolledBack = true;
  }

  /**
   * The code that has opened the transaction says that it has succeeded.
   *
   * @returns how it has ended
   * @throws what has forbidden the COMMIT, or the database's refusal, whatever became of that error ·
   * LockCommitUnknownError if it was not answered, or if neither COMMIT nor ROLLBACK was sent: the transaction may
   * still be open, and be committed by whoever uses its connection next
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
    this.#progress = undefined; // nobody knows what becomes of it
    throw this.#unknown(new Error('it was not sent'));
  }

  #unknown(cause: unknown): LockCommitUnknownError {
    return commitUnknown([...this.#gate.holds.keys()], cause);
  }

  /** @param onOverdue gets the error if it is not answered for as long as the leases last */
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
   * The transaction has failed.
   *
   * @param error what the code got that has opened it
   * @param isDone whether its body was done, so that the failure may be one of the COMMIT
   * @returns how it has ended, and the error for its caller
   */
  failed(error: unknown, isDone: boolean): { outcome: TransactionOutcome; told: unknown } {
    this.#wait.end();
    if (this.#veto !== undefined) {
      return { outcome: 'rolled-back', told: isDone ? this.#veto : error };
    }
    const outcome = isDone ? this.#outcome(error) : 'rolled-back';
    if (isDone && this.#isRefused && error instanceof LockInTransactionError) {
      return { outcome, told: this.#driverError }; // what came behind that was refused because of it
    }
    return { outcome, told: outcome === 'unknown' ? (this.doubt(error) ?? error) : error };
  }

  /**
   * What has opened the transaction opens another one, without a word of what became of this one.
   *
   * @param mayBeCommitted whether it counts as committed, perhaps, where nobody has seen a COMMIT
   * @returns as `failed`; the error is undefined if the transaction has run under no lock
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

  /** A statement that fails because the transaction had failed before keeps the COMMIT of its text from running. */
  get #isRefused(): boolean {
    const error = this.#driverError;
    return this.#isFollowed ? isOfFailedTransaction(error) : isRefusedCommit(error);
  }

  /** The error for a commit in doubt; undefined if the transaction has run under no lock. */
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
