import type { AskedLocks, TransactionalLocks } from '../../core/calls/open-transaction.js';
import { TransactionRestart } from './transaction-restart.js';

/** How long after the end of a transaction its code may still be running in an abandoned or failed run. */
export const AFTERMATH_MS = 10_000;

/** The caller and keys of a lock request inside a transaction, for messages. */
export type Asker = Pick<AskedLocks, 'callSite' | 'keys'>;

/** The shared state of all runs of a transaction. */
export interface RunMemory {
  /** Whether the last run is in progress or has just ended. */
  readonly isRecent: boolean;
  /** @throws LockInTransactionError if there were already too many runs */
  assertMayRepeat(asker: Asker): void;
  /** Remembers the request for the next run. */
  note(locks: TransactionalLocks, request: AskedLocks): void;
  /** @throws LockNotAcquiredError if this run exists only to say so */
  assertNotRefused(locks: TransactionalLocks, request: AskedLocks): void;
  /** Called if the signal of the call has aborted before the request, which resolves an unclear signal. */
  noteAborted(locks: TransactionalLocks, request: AskedLocks): void;
}

/**
 * One run of an outermost transaction and its inner transactions. When the transaction must be run again, this run is
 * over for all its code, in every branch: no more statements, locks or commits are accepted.
 */
export class TransactionRun {
  readonly #memory: RunMemory;
  #pending: TransactionRestart | undefined;
  #obstacle: Error | undefined;
  #doubt: Error | undefined;

  constructor(memory: RunMemory) {
    this.#memory = memory;
  }

  /** Whether the run was abandoned, so that code still running in it has no effect. */
  get isAbandoned(): boolean {
    return this.#pending !== undefined;
  }

  /** Whether the transaction is run again. */
  get isRepeated(): boolean {
    return this.isAbandoned && this.#obstacle === undefined && this.#doubt === undefined;
  }

  /**
   * Whether the run was abandoned recently. Later, code started in it is not necessarily part of it: a timer, or a
   * connection with its listeners, keeps its original async context for ever.
   */
  get isJustAbandoned(): boolean {
    return this.isAbandoned && this.#memory.isRecent;
  }

  /** @throws TransactionRestart if the run was abandoned */
  assertGoesOn(): void {
    if (this.#pending !== undefined) throw this.#pending;
  }

  /** @throws LockNotAcquiredError if this run exists only to say so */
  assertNotRefused(locks: TransactionalLocks, request: AskedLocks): void {
    this.#memory.assertNotRefused(locks, request);
  }

  /** Called if the signal of the call has aborted before the request. */
  noteAborted(locks: TransactionalLocks, request: AskedLocks): void {
    this.#memory.noteAborted(locks, request);
  }

  /** Abandons the run: the next one holds these keys from its beginning. @throws TransactionRestart, always */
  demand(locks: TransactionalLocks, request: AskedLocks): never {
    this.#memory.assertMayRepeat(request);
    this.#memory.note(locks, request);
    return this.#giveUp(request.keys);
  }

  /**
   * Abandons the run: the next one begins after the lock was acquired.
   * @throws TransactionRestart, always
   */
  beginAnew(asker: Asker): never {
    this.#memory.assertMayRepeat(asker);
    return this.#giveUp(asker.keys);
  }

  #giveUp(keys: readonly string[]): never {
    this.#pending ??= new TransactionRestart(keys);
    throw this.#pending;
  }

  /** Prevents another run, beside which work of this one must not continue. */
  cannotBeRepeated(obstacle: Error): void {
    this.#obstacle ??= obstacle;
  }

  /** Prevents another run, because an inner transaction may have been committed and would be repeated. */
  commitUnknown(doubt: Error): void {
    this.#doubt ??= doubt;
  }

  /** @returns the error for the caller of the transaction */
  told(error: unknown): unknown {
    return this.#obstacle ?? (this.isAbandoned ? this.#doubt : undefined) ?? error;
  }
}
