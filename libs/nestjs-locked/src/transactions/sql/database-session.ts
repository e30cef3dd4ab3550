/** The dialects of databases that can be fenced. MariaDB counts as MySQL. */
export type SqlDialect = 'postgres' | 'mysql';

/**
 * Runs one statement inside the transaction.
 *
 * @param sql with the placeholders of the database: `$1` for PostgreSQL, `?` for MySQL and MariaDB
 * @returns the rows, if there are any
 */
export type TransactionQuery = (sql: string, params: unknown[]) => Promise<unknown>;

/** One key and the fencing token with which it is claimed. */
export interface FenceClaim {
  readonly key: string;
  readonly fencingNumber: number;
  /** Whether a reader claims it, beside others: the row is only locked and compared, not written. */
  readonly isShared: boolean;
}

/** A key for which the database knows a newer token. */
export interface RefusedClaim {
  readonly key: string;
  readonly newest: number;
}

/** The longest time-out of PostgreSQL: 24 days. */
export const LONGEST_MS = 2_147_483_647;

/** The time limits of a transaction, in milliseconds; 0 and undefined = the database's own setting. */
export interface TransactionBounds {
  readonly idleMs?: number;
  readonly statementMs?: number;
  readonly lockMs?: number;
  readonly totalMs?: number;
}

export type ClaimOutcome =
  | { readonly kind: 'claimed' }
  /** The database knows newer tokens for these keys, at least one. */
  | { readonly kind: 'fenced'; readonly refused: readonly RefusedClaim[] }
  /** Another transaction has claimed a key since this one's snapshot was taken: this one must begin again. */
  | { readonly kind: 'conflict'; readonly cause: unknown }
  /** The transaction of an earlier holder is still open. */
  | { readonly kind: 'blocked'; readonly cause: unknown };

/** What the database reported last: an open transaction, a failed one, or none. */
export type TransactionStatus = 'open' | 'failed' | 'none';

/** What a driver knows about its connection without a query. */
export interface ConnectionState {
  /** Undefined if the driver does not know, or has sent something since. */
  readonly transactionStatus: TransactionStatus | undefined;
}

/** The statements that locks send to the database inside one guarded transaction. One class for each dialect. */
export interface DatabaseSession {
  readonly dialect: SqlDialect;
  /** Whether bounds can be armed for one transaction; otherwise, they are ignored. */
  readonly armsBounds: boolean;
  /** Called before anything else in the transaction. */
  begin(): Promise<void>;
  /**
   * Writes the tokens, refuses if a higher one is stored, and keeps other claims of the same keys waiting until the
   * transaction has ended; arms the bounds. Rejects with any error that is not one of the outcomes.
   *
   * A shared claim writes nothing, and keeps only those waiting that are not shared. A read-only transaction that
   * cannot make it goes on without it.
   *
   * @param waitMs how long it may wait for a row that another transaction has claimed; Infinity = as long as the bounds
   * and the database allow. Later statements are not limited by it
   */
  claim(
    table: string,
    claims: readonly FenceClaim[],
    bounds: TransactionBounds | undefined,
    waitMs: number,
  ): Promise<ClaimOutcome>;
  /** Arms the bounds without a claim. */
  arm(bounds: TransactionBounds): Promise<void>;
  /**
   * Called after `begin` and its claims, before the body. Sends nothing.
   * @throws if the database has reported that there is no transaction, because a hook at its start has ended it
   */
  assertBegun?(): void;
  /**
   * Called before COMMIT. Sends nothing if there is nothing to arm and the driver knows that the transaction is usable.
   * @param idleMs how long the database may wait for the COMMIT; undefined if already limited
   * @throws if the transaction can no longer be committed, because an error of a statement was swallowed
   */
  beforeCommit(idleMs: number | undefined): Promise<void>;
  /**
   * Called if the COMMIT was not sent after all, so that `beforeCommit` can be called again. Undefined if it always
   * can.
   */
  mayCommitAgain?(): Promise<void>;
  /**
   * The isolation level of this transaction in the database's words: `repeatable read`. Undefined if the database does
   * not report it.
   */
  isolation(): Promise<string | undefined>;
}

/** Whether this isolation level lets each statement see what was committed before it. */
export function seesFreshData(isolation: string): boolean {
  const letters = isolation.toLowerCase().replace(/[^a-z]/g, '');
  return letters === 'readcommitted' || letters === 'readuncommitted';
}
