import { readArrived } from '../../core/runtime/arrived-messages.js';
import type {
  ClaimOutcome,
  ConnectionState,
  DatabaseSession,
  FenceClaim,
  RefusedClaim,
  TransactionBounds,
  TransactionQuery,
} from './database-session.js';
import type { KnownDatabase } from './known-database.js';
import {
  expectantArming,
  expectantClaim,
  generalArming,
  generalClaim,
  lastLook,
  limitsAnything,
  plainClaim,
  type Statement,
  tokensOf,
} from './postgres-statements.js';
import { rowsOf } from './rows-of.js';
import type { ExpectedLimits, SessionLimits } from './session-limits.js';
import { sqlErrorCode } from './sql-error.js';
import { transactionGone } from './transaction-gone.js';

const SERIALIZATION_FAILURE = '40001';
const DEADLOCK = '40P01';
/** Both mean that another transaction had the row for too long: the wait, or the statement that waited, was ended. */
const WAITED_TOO_LONG: readonly unknown[] = ['55P03', '57014'];

/** PostgreSQL 12 and later. All settings end with the transaction, so that they also suit a transaction pooler. */
export class PostgresSession implements DatabaseSession {
  readonly dialect = 'postgres';
  readonly armsBounds = true;
  readonly #query: TransactionQuery;
  readonly #limits: SessionLimits;
  readonly #connection: ConnectionState | undefined;
  /** From then on, the session shows our limits, and not those that it came with. */
  #hasArmed = false;

  /** @param connection what its driver knows; undefined if nothing: then the database is asked */
  constructor(query: TransactionQuery, { limits }: KnownDatabase, connection?: ConnectionState) {
    this.#query = query;
    this.#limits = limits;
    this.#connection = connection;
  }

  async begin(): Promise<void> {}

  /**
   * One statement. The upsert takes the row's lock even if its WHERE refuses the row, and keeps it until the
   * transaction has ended: transactions on one key run one after the other, and commit in the order of their tokens.
   */
  async claim(
    table: string,
    claims: readonly FenceClaim[],
    bounds: TransactionBounds | undefined,
    waitMs: number,
  ): Promise<ClaimOutcome> {
    let claimed: ReadonlySet<unknown>;
    try {
      claimed = await this.#claimed(table, claims, bounds ?? {}, waitMs);
    } catch (cause) {
      const code = sqlErrorCode(cause);
      if (code === SERIALIZATION_FAILURE || code === DEADLOCK) return { kind: 'conflict', cause };
      if (WAITED_TOO_LONG.includes(code)) return { kind: 'blocked', cause };
      throw cause;
    }
    const refused = claims.filter(({ key }) => !claimed.has(key));
    if (refused.length === 0) return { kind: 'claimed' };
    return { kind: 'fenced', refused: await this.#newest(table, refused) };
  }

  /** @returns the keys whose claim was accepted */
  async #claimed(
    table: string,
    claims: readonly FenceClaim[],
    bounds: TransactionBounds,
    waitMs: number,
  ): Promise<ReadonlySet<unknown>> {
    if (!limitsAnything(bounds) && waitMs === Infinity) {
      return keysIn(await this.#send(plainClaim(table, claims)));
    }
    const isLater = this.#hasArmed;
    const expected = this.#expected();
    if (expected !== undefined) {
      const arming = expected.armingFor(bounds, waitMs);
      const claimed = keysIn(await this.#send(expectantClaim(table, claims, arming)));
      // Otherwise somebody was there, or the session has other limits: the general statement finds out which.
      if (claims.every(({ key }) => claimed.has(key))) return claimed;
    }
    const rows = await this.#send(generalClaim(table, claims, bounds, waitMs));
    const [first] = rows;
    if (first !== undefined && !isLater) this.#limits.learn(first['limits']);
    return keysIn(rows);
  }

  /** A snapshot may be older than the row that has refused a claim, whose token is higher than ours in any case. */
  async #newest(table: string, claims: readonly FenceClaim[]): Promise<readonly RefusedClaim[]> {
    const [row] = await this.#send(tokensOf(table, claims));
    return claims.map(({ key, fencingNumber }, i) => ({
      key,
      newest: Math.max(Number(row?.[`token_${i}`] ?? 0), fencingNumber + 1),
    }));
  }

  async arm(bounds: TransactionBounds): Promise<void> {
    if (!limitsAnything(bounds)) return;
    const isLater = this.#hasArmed;
    const expected = this.#expected();
    if (expected !== undefined) {
      const [row] = await this.#send(expectantArming(expected.armingFor(bounds, Infinity)));
      if (typeof row?.['armed'] === 'string') return;
    }
    const [row] = await this.#send(generalArming(bounds));
    if (!isLater) this.#limits.learn(row?.['limits']);
  }

  /** What the session is expected to have as its own limits; undefined if that is not known, or not of use any more. */
  #expected(): ExpectedLimits | undefined {
    if (this.#hasArmed) return undefined;
    this.#hasArmed = true;
    return this.#limits.expected;
  }

  /**
   * COMMIT does not say that the transaction was aborted. The driver may know; if not, any statement would do to learn
   * it.
   */
  async beforeCommit(idleMs: number | undefined): Promise<void> {
    if (idleMs === undefined || idleMs <= 0) {
      await readArrived(); // the end of the connection, or of a lock
      if (this.#connection?.transactionStatus === 'open') return;
    }
    const isGone = this.#connection?.transactionStatus === 'none';
    const [row] = await this.#send(lastLook(idleMs)); // an ORM that has ended it says so in its own words
    if (isGone || row?.['inside'] === false) throw transactionGone();
  }

  async isolation(): Promise<string> {
    const answer = await this.#query(
      `SELECT current_setting('transaction_isolation') AS level`,
      [],
    );
    return String(rowsOf(answer)[0]?.['level']);
  }

  async #send({ sql, params }: Statement): Promise<readonly Record<string, unknown>[]> {
    return rowsOf(await this.#query(sql, params));
  }
}

function keysIn(rows: readonly Record<string, unknown>[]): ReadonlySet<unknown> {
  return new Set(rows.map((row) => row['lock_key']));
}
