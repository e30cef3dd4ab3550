import type { AskedLocks, TransactionalLocks } from '../../core/calls/open-transaction.js';

/** How long after a transaction something may still go on in a run of it that was given up, or that failed. */
export const AFTERMATH_MS = 10_000;

/** Rolls a transaction back that is going to be run again. Not for catching: whoever does is overruled at the commit. */
export class TransactionRestart extends Error {
  constructor(keys: readonly string[]) {
    super(
      `The transaction is rolled back and run again with ${keys.map((key) => `'${key}'`).join(', ')} locked (insideTransaction: 'restart'); do not catch this`,
    );
    this.name = 'TransactionRestart';
  }
}

/** What all runs of a transaction know. */
export interface RunMemory {
  /** Whether the last of them goes on, or has ended only a moment ago. */
  readonly isRecent: boolean;
  /** Remembers what the next run needs. @throws LockInTransactionError if there were too many runs already */
  note(locks: TransactionalLocks, request: AskedLocks): void;
  /** @throws LockNotAcquiredError if this run exists only to say so */
  assertNotRefused(locks: TransactionalLocks, request: AskedLocks): void;
}

/**
 * One run of an outermost transaction, with the transactions inside of it. As soon as it has to begin anew it is over
 * for everybody who works in it, in whatever branch: no statement, no lock and no commit any more.
 */
export class TransactionRun {
  readonly #memory: RunMemory;
  #pending: TransactionRestart | undefined;
  #obstacle: Error | undefined;
  #isOver = false;

  constructor(memory: RunMemory) {
    this.#memory = memory;
  }

  /** Whether it was given up, so that what still goes on in it is nobody's work any more. */
  get isAbandoned(): boolean {
    return this.#pending !== undefined;
  }

  /** Whether the transaction begins anew. */
  get isRepeated(): boolean {
    return this.isAbandoned && this.#obstacle === undefined;
  }

  /** Whether the transaction has ended, so that nobody could begin it anew. */
  get isOver(): boolean {
    return this.#isOver;
  }

  /**
   * Whether that was a moment ago. Later, code that was begun in it is not necessarily a part of it: whatever was
   * started there once (a timer, a connection with its listeners) has its async context for ever.
   */
  get isJustAbandoned(): boolean {
    return this.isAbandoned && this.#memory.isRecent;
  }

  /** @throws TransactionRestart if it does not */
  assertGoesOn(): void {
    if (this.#pending !== undefined) throw this.#pending;
  }

  /** @throws LockNotAcquiredError if this run exists only to say so */
  assertNotRefused(locks: TransactionalLocks, request: AskedLocks): void {
    this.#memory.assertNotRefused(locks, request);
  }

  /** Gives the run up: the next one has these keys from its beginning. @throws TransactionRestart, in any case */
  demand(locks: TransactionalLocks, request: AskedLocks): never {
    this.#memory.note(locks, request);
    return this.beginAnew(request.keys);
  }

  /** Gives the run up. @throws TransactionRestart, in any case */
  beginAnew(keys: readonly string[]): never {
    this.#pending ??= new TransactionRestart(keys);
    throw this.#pending;
  }

  /** Work goes on in it that may not go on beside the next run: there is none. */
  cannotBeRepeated(obstacle: Error): void {
    this.#obstacle ??= obstacle;
  }

  /** @returns what its caller is told */
  end(error: unknown): unknown {
    this.#isOver = true;
    return this.#obstacle ?? error;
  }
}
