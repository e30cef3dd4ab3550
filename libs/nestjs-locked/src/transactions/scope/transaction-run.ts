import type { AskedLocks, TransactionalLocks } from '../../core/calls/open-transaction.js';
import { TransactionRestart } from './transaction-restart.js';

/** How long after the end of a transaction code may still continue in a run of it that was given up, or that failed. */
export const AFTERMATH_MS = 10_000;

/** Who asks for a lock inside of a transaction, and for which keys: for messages. */
export type Asker = Pick<AskedLocks, 'callSite' | 'keys'>;

/** What all runs of a transaction have in common. */
export interface RunMemory {
  /** Whether the last run continues, or has ended only a moment ago. */
  readonly isRecent: boolean;
  /** @throws LockInTransactionError if there were too many runs already */
  assertMayRepeat(asker: Asker): void;
  /** Remembers what the next run needs. */
  note(locks: TransactionalLocks, request: AskedLocks): void;
  /** @throws LockNotAcquiredError if this run exists only to say so */
  assertNotRefused(locks: TransactionalLocks, request: AskedLocks): void;
  /** The signal of the call has aborted before it asks: what was unclear about that signal is known. */
  noteAborted(locks: TransactionalLocks, request: AskedLocks): void;
}

/**
 * One run of an outermost transaction, with the transactions inside of it. As soon as the transaction has to be run
 * again, this run is over for all code in it, in whatever branch: no statement, lock or commit is accepted any more.
 */
export class TransactionRun {
  readonly #memory: RunMemory;
  #pending: TransactionRestart | undefined;
  #obstacle: Error | undefined;
  #doubt: Error | undefined;

  constructor(memory: RunMemory) {
    this.#memory = memory;
  }

  /** Whether it was given up, so that what still continues in it counts for nothing. */
  get isAbandoned(): boolean {
    return this.#pending !== undefined;
  }

  /** Whether the transaction is run again. */
  get isRepeated(): boolean {
    return this.isAbandoned && this.#obstacle === undefined && this.#doubt === undefined;
  }

  /**
   * Whether it was given up only a moment ago. Later, code that was started in it is not necessarily a part of it: a
   * timer, or a connection with its listeners, keeps the async context of its beginning for ever.
   */
  get isJustAbandoned(): boolean {
    return this.isAbandoned && this.#memory.isRecent;
  }

  /** @throws TransactionRestart if the run was given up */
  assertGoesOn(): void {
    if (this.#pending !== undefined) throw this.#pending;
  }

  /** @throws LockNotAcquiredError if this run exists only to say so */
  assertNotRefused(locks: TransactionalLocks, request: AskedLocks): void {
    this.#memory.assertNotRefused(locks, request);
  }

  /** The signal of the call has aborted before it asks. */
  noteAborted(locks: TransactionalLocks, request: AskedLocks): void {
    this.#memory.noteAborted(locks, request);
  }

  /** Gives the run up: the next one holds these keys from its beginning. @throws TransactionRestart, always */
  demand(locks: TransactionalLocks, request: AskedLocks): never {
    this.#memory.assertMayRepeat(request);
    this.#memory.note(locks, request);
    return this.#giveUp(request.keys);
  }

  /**
   * Gives the run up: the next one begins after the lock was acquired.
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

  /** Work continues in it that must not continue beside another run, so there is no other run. */
  cannotBeRepeated(obstacle: Error): void {
    this.#obstacle ??= obstacle;
  }

  /** A transaction inside of it may have been committed, nobody knows: another run could repeat it. */
  commitUnknown(doubt: Error): void {
    this.#doubt ??= doubt;
  }

  /** @returns the error for the caller of the transaction */
  told(error: unknown): unknown {
    return this.#obstacle ?? (this.isAbandoned ? this.#doubt : undefined) ?? error;
  }
}
