import type { LockRequest, TransactionalLocks } from '../open-transaction.js';
import { LockInTransactionError, LockNotAcquiredError } from '../lock.errors.js';
import { systemClock } from '../clock.js';
import type { ResolvedLockOptions } from '../lock.options.js';

const MAX_RESTARTS = 8;

/** Rolls a transaction back that is going to be run again. Not for catching: whoever does is overruled at the commit. */
export class TransactionRestart extends Error {
  constructor(keys: readonly string[]) {
    super(
      `The transaction is rolled back and run again with ${keys.map((key) => `'${key}'`).join(', ')} locked (insideTransaction: 'restart'); do not catch this`,
    );
    this.name = 'TransactionRestart';
  }
}

/** What one lock service has been asked for inside the transaction. */
interface Wanted {
  readonly keys: Set<string>;
  options: ResolvedLockOptions;
}

/**
 * The runs of one outermost transaction: it is run again with all the keys that were asked for inside of it, until
 * nothing new is asked for. Between two runs no key is held that a run has taken: waiting for some while holding
 * others would be out of order.
 */
export class Restart {
  readonly #wanted = new Map<TransactionalLocks, Wanted>();
  /** Somebody else held a key for the whole wait; the call that asks for it is told so in one more run. */
  readonly #refused = new Map<string, LockNotAcquiredError>();
  #signal: TransactionRestart | undefined;
  #runs = 0;
  /** One wait for all runs together. */
  #until: number | undefined;

  /** The run must end: set as soon as it was decided, whatever becomes of the error. */
  get signal(): TransactionRestart | undefined {
    return this.#signal;
  }

  /** @throws LockNotAcquiredError if this run exists only to say so */
  assertNotRefused(keys: readonly string[]): void {
    for (const key of keys) {
      const refused = this.#refused.get(key);
      if (refused !== undefined) throw refused;
    }
  }

  /** Notes what was asked for, and ends the run. @throws TransactionRestart · LockInTransactionError at the cap */
  demand(locks: TransactionalLocks, { keys, options, caller }: LockRequest): never {
    if (this.#runs >= MAX_RESTARTS) {
      throw new LockInTransactionError(
        `${caller}: lock '${keys[0]}' was asked for inside a transaction that was restarted ${MAX_RESTARTS} times, each time for other keys; lock them all outside the transaction`,
        keys[0],
      );
    }
    const wanted = this.#wanted.get(locks) ?? { keys: new Set(), options };
    for (const key of keys) wanted.keys.add(key);
    wanted.options = options;
    this.#wanted.set(locks, wanted);
    this.#until ??= systemClock.now() + options.waitMs;
    this.#signal = new TransactionRestart(keys);
    throw this.#signal;
  }

  /** A key that a run has taken without waiting: the next one needs it from the beginning. */
  note(locks: TransactionalLocks, { keys, options }: LockRequest): void {
    const wanted = this.#wanted.get(locks);
    if (wanted === undefined) this.#wanted.set(locks, { keys: new Set(keys), options });
    else for (const key of keys) wanted.keys.add(key);
  }

  /** Runs the transaction until nothing new is asked for. */
  async repeat<R>(run: () => Promise<R>): Promise<R> {
    for (;;) {
      this.#signal = undefined;
      try {
        return await this.#holding([...this.#wanted], run);
      } catch (error) {
        if (this.#signal === undefined) throw error;
        this.#runs++;
      }
    }
  }

  /** Takes what was asked for, service by service, with no transaction open. */
  async #holding<R>(
    services: readonly (readonly [TransactionalLocks, Wanted])[],
    run: () => Promise<R>,
  ): Promise<R> {
    const [first, ...rest] = this.#runs === 0 ? [] : services;
    if (first === undefined) return run();
    const [locks, { keys, options }] = first;
    let entered = false;
    try {
      return await locks.holding([...keys], { ...options, waitMs: this.#waitMs() }, () => {
        entered = true;
        return this.#holding(rest, run);
      });
    } catch (error) {
      if (entered || !(error instanceof LockNotAcquiredError) || options.isBusyFatal) throw error;
      const key = error.key as string;
      keys.delete(key);
      this.#refused.set(key, error);
      return this.#holding(keys.size === 0 ? rest : services, run);
    }
  }

  #waitMs(): number {
    if (this.#until === undefined || this.#until === Infinity) return Infinity;
    return Math.max(0, Math.ceil(this.#until - systemClock.now()));
  }
}
