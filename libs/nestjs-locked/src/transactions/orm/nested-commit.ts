import type { TransactionScope } from '../scope/transaction-scope.js';

/** The part of TypeORM's query runner that sends statements. */
interface Sends {
  query: (...args: never[]) => Promise<unknown>;
}

/**
 * Remembers that what the code of a query runner has asked for last has committed a nested transaction, and not the
 * transaction itself. It may believe that all is committed, and does not notice a rollback that others ask for.
 */
export class NestedCommit {
  #cameLast = false;
  #takeBack: (() => void) | undefined;

  constructor(runner: Sends) {
    const { query } = runner;
    // Not async: every statement passes here, and promises are not free.
    runner.query = (...args) => {
      const sent = query.apply(runner, args);
      return this.#cameLast ? sent.catch((error: unknown) => this.#failed(error)) : sent;
    };
  }

  came(): void {
    this.#cameLast = true;
  }

  /** Its code asks for something else now, or has just been told that its transaction has failed. */
  isPast(): void {
    this.#takeBack?.();
    this.#takeBack = undefined;
    this.#cameLast = false;
  }

  /** The transaction was lost with its connection: its code is told by the next statement, if it sends one. */
  lost(scope: TransactionScope): void {
    if (this.#cameLast) this.#takeBack = scope.leftUncommitted();
  }

  /** The query runner is released. @param scope its transaction, if that is rolled back with it */
  released(scope: TransactionScope | undefined): void {
    if (this.#cameLast) scope?.leftUncommitted();
    this.#takeBack = undefined;
    this.#cameLast = false;
  }

  #failed(error: unknown): never {
    this.isPast();
    throw error;
  }
}
