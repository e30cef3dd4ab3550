/** The kinds of databases that can be fenced. MariaDB counts as MySQL. */
export type SqlDialect = 'postgres' | 'mysql';

/**
 * Runs one statement inside the transaction.
 *
 * @param sql with the placeholders of the database: `$1` for PostgreSQL, `?` for MySQL and MariaDB
 * @returns the rows, if it gives any
 */
export type TransactionQuery = (sql: string, params: unknown[]) => Promise<unknown>;

/** One key and the fencing token with which it is claimed. */
export interface FenceClaim {
  readonly key: string;
  readonly fencingNumber: number;
}

/** A key for which the database knows a newer token. */
export interface RefusedClaim {
  readonly key: string;
  readonly newest: number;
}

/** PostgreSQL takes no longer time-out: 24 days. */
export const LONGEST_MS = 2_147_483_647;

/** What a transaction may take at most, in milliseconds; 0 and undefined = as the database has it. */
export interface TransactionBounds {
  readonly idleMs?: number;
  readonly statementMs?: number;
  readonly lockMs?: number;
  readonly totalMs?: number;
}

export type ClaimOutcome =
  | { readonly kind: 'claimed' }
  /** The database knows newer tokens. All the keys for which it does are named, at least one. */
  | { readonly kind: 'fenced'; readonly refused: readonly RefusedClaim[] }
  /** Another transaction has claimed a key since this one's snapshot was taken: this one must begin again. */
  | { readonly kind: 'conflict'; readonly cause: unknown }
  /** The transaction of an earlier holder is still open. */
  | { readonly kind: 'blocked'; readonly cause: unknown };

/** What the database has said last: a transaction is open, it has failed, or there is none. */
export type TransactionStatus = 'open' | 'failed' | 'none';

/** What a driver knows about its connection without asking the database. */
export interface ConnectionState {
  /** Undefined: the driver does not know, or something was sent since then. */
  readonly transactionStatus: TransactionStatus | undefined;
}

/** What is said to a database inside one transaction that a lock guards. One class for each kind of database. */
export interface DatabaseSession {
  readonly dialect: SqlDialect;
  /** Whether bounds can be armed for one transaction. Where they cannot, they are ignored. */
  readonly armsBounds: boolean;
  /** Before anything else in the transaction. */
  begin(): Promise<void>;
  /**
   * Writes the tokens, refuses if a higher one is there, and keeps other claims of the same keys waiting until the
   * transaction has ended; arms the bounds. Rejects with any error that is not one of the outcomes.
   *
   * @param waitMs how long it may wait for a row that another transaction has claimed; Infinity = as long as the bounds
   * and the database allow. What the transaction does afterwards is not limited by it
   */
  claim(
    table: string,
    claims: readonly FenceClaim[],
    bounds: TransactionBounds | undefined,
    waitMs: number,
  ): Promise<ClaimOutcome>;
  /** Arms the bounds alone. */
  arm(bounds: TransactionBounds): Promise<void>;
  /**
   * After `begin` and what was claimed and armed with it, before the body. Sends nothing.
   * @throws if the database has said that there is no transaction: a hook at its start has ended it
   */
  assertBegun?(): void;
  /**
   * Before COMMIT. Sends nothing if there is nothing to arm, and the driver knows that the transaction is usable.
   * @param idleMs how long the database may wait for the COMMIT; undefined if it is limited already
   * @throws if the transaction cannot be committed any more: an error of a statement was swallowed
   */
  beforeCommit(idleMs: number | undefined): Promise<void>;
  /** The COMMIT was not sent after all: `beforeCommit` may be asked once more. Undefined: it always may be. */
  mayCommitAgain?(): Promise<void>;
  /** Of this transaction, as the database calls it: `repeatable read`. Undefined if the database does not tell. */
  isolation(): Promise<string | undefined>;
}

/** Whether this isolation level lets each statement see what was committed before it. */
export function seesFreshData(isolation: string): boolean {
  const letters = isolation.toLowerCase().replace(/[^a-z]/g, '');
  return letters === 'readcommitted' || letters === 'readuncommitted';
}
