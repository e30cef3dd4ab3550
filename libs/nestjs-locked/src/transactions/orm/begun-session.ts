import { systemClock } from '../../core/time/clock.js';
import { refusal } from '../scope/transaction-refusal.js';
import type {
  ClaimOutcome,
  DatabaseSession,
  FenceClaim,
  SqlDialect,
  TransactionBounds,
} from '../sql/database-session.js';
import type { BeginWatch } from './begin-watch.js';

export interface BegunTransaction {
  readonly connection: string;
  readonly begin: BeginWatch;
  /** The client of the transaction, if known. */
  readonly client: () => unknown;
  /** Closes its connection. */
  readonly close: () => Promise<void>;
}

/**
 * A session that refuses a transaction under locks that has begun inside another one: work left open on its connection
 * would be committed or rolled back with it, and its snapshot could be as old.
 */
export class BegunSession implements DatabaseSession {
  readonly dialect: SqlDialect;
  readonly armsBounds: boolean;
  readonly #session: DatabaseSession;
  readonly #transaction: BegunTransaction;
  readonly #startedAt = systemClock.now();

  constructor(session: DatabaseSession, transaction: BegunTransaction) {
    this.dialect = session.dialect;
    this.armsBounds = session.armsBounds;
    this.#session = session;
    this.#transaction = transaction;
  }

  async begin(): Promise<void> {
    await this.#assertOutside();
    await this.#session.begin();
  }

  /** If BEGIN is sent with the claim, the answer shows how the transaction has begun. */
  async claim(
    table: string,
    claims: readonly FenceClaim[],
    bounds: TransactionBounds | undefined,
    waitMs: number,
  ): Promise<ClaimOutcome> {
    await this.#assertOutside();
    const outcome = await this.#session.claim(table, claims, bounds, waitMs);
    await this.#assertOutside();
    return outcome;
  }

  async arm(bounds: TransactionBounds): Promise<void> {
    await this.#assertOutside();
    await this.#session.arm(bounds);
    await this.#assertOutside();
  }

  assertBegun(): void {
    this.#session.assertBegun?.();
  }

  async beforeCommit(idleMs: number | undefined): Promise<void> {
    await this.#assertOutside();
    await this.#session.beforeCommit(idleMs);
  }

  async mayCommitAgain(): Promise<void> {
    await this.#session.mayCommitAgain?.();
  }

  async isolation(): Promise<string | undefined> {
    await this.#assertOutside();
    return this.#session.isolation();
  }

  /** @throws LockInTransactionError after closing its connection, so that no pool hands it out again */
  async #assertOutside(): Promise<void> {
    const { connection, begin, client, close } = this.#transaction;
    if (!begin.isInside(client())) return;
    await close().catch(() => {}); // it is already closed
    const ageMs = systemClock.now() - this.#startedAt;
    const of = { callSite: 'A transaction', key: undefined, connection, ageMs };
    throw refusal('begun-inside', { ...of, timeoutMs: undefined });
  }
}
