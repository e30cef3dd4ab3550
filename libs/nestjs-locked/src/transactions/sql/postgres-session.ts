import { readArrived } from '../../core/runtime/arrived-messages.js';
import { shownValue } from '../../core/runtime/shown-value.js';
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
  ARMED,
  expectantArming,
  expectantClaim,
  generalArming,
  generalClaim,
  LAST_LOOKS,
  lastLook,
  limitsAnything,
  plainClaim,
  readClaim,
  type Statement,
  tokensOf,
} from './postgres-statements.js';
import { onlyValueOf, rowsOf, shown, textIn, textOf, tokensIn, unreadable } from './rows-of.js';
import type { ExpectedLimits, SessionLimits } from './session-limits.js';
import { sqlErrorCode } from './sql-error.js';
import { transactionGone } from './transaction-gone.js';

const SERIALIZATION_FAILURE = '40001';
const DEADLOCK = '40P01';
/** Both mean that another transaction had the row for too long: the wait, or the waiting statement, was cancelled. */
const WAITED_TOO_LONG: readonly unknown[] = ['55P03', '57014'];

const CLAIM = 'the claim of the fence';
const ARMING = 'the statement that arms the time-outs';
const LAST_LOOK = 'the question whether the transaction is still there';

/** The answer to a claim. */
interface Claimed {
  readonly keys: ReadonlySet<string>;
  readonly limits: string | undefined;
}

/** PostgreSQL 12 and later. All settings are local to the transaction, so they also work with a transaction pooler. */
export class PostgresSession implements DatabaseSession {
  readonly dialect = 'postgres';
  readonly armsBounds = true;
  readonly #query: TransactionQuery;
  readonly #limits: SessionLimits;
  readonly #connection: ConnectionState | undefined;
  /** Whether the session now shows our limits instead of its own. */
  #hasArmed = false;

  /** @param connection the state known to its driver; undefined if there is none and the database has to be asked */
  constructor(query: TransactionQuery, { limits }: KnownDatabase, connection?: ConnectionState) {
    this.#query = query;
    this.#limits = limits;
    this.#connection = connection;
  }

  async begin(): Promise<void> {}

  /**
   * Claims with one statement. The upsert takes the row's lock even if its WHERE refuses the row, and keeps it until
   * the transaction has ended: transactions on one key run one after the other, and commit in the order of their
   * tokens.
   */
  async claim(
    table: string,
    claims: readonly FenceClaim[],
    bounds: TransactionBounds | undefined,
    waitMs: number,
  ): Promise<ClaimOutcome> {
    let claimed: ReadonlySet<string>;
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
  ): Promise<ReadonlySet<string>> {
    if (!limitsAnything(bounds) && waitMs === Infinity) {
      return (await this.#sendClaim(plainClaim(table, claims), claims)).keys;
    }
    const isLater = this.#hasArmed;
    const expected = this.#expected();
    if (expected !== undefined) {
      const arming = expected.armingFor(bounds, waitMs);
      const { keys } = await this.#sendClaim(expectantClaim(table, claims, arming), claims);
      // Otherwise, a newer holder was there or the session has other limits; the general statement finds out which.
      if (keys.size === claims.length) return keys;
    }
    const general = generalClaim(table, claims, bounds, waitMs);
    const { keys, limits } = await this.#sendClaim(general, claims);
    if (limits !== undefined && !isLater) this.#limits.learn(limits);
    return keys;
  }

  /** @returns the keys whose claim was accepted, and the limits of the session, if the statement returns them */
  async #sendClaim(statement: Statement, claims: readonly FenceClaim[]): Promise<Claimed> {
    const rows = rowsOf(await this.#send(statement), CLAIM);
    const keys = new Set<string>();
    let limits: string | undefined;
    for (const row of rows) {
      const claim = readClaim(textOf(onlyValueOf(row)) ?? '');
      const isKnown = claim?.key === '' || claims.some(({ key }) => key === claim?.key);
      if (claim === undefined || !isKnown) return unreadable(CLAIM, shown(rows));
      if (claim.key !== '') keys.add(claim.key);
      if (claim.limits !== '') limits = claim.limits;
    }
    return { keys, limits };
  }

  /** This transaction has locked the rows that refused the claims, so it can see them. */
  async #newest(table: string, claims: readonly FenceClaim[]): Promise<readonly RefusedClaim[]> {
    const tokens = tokensIn(await this.#send(tokensOf(table, claims)), claims.length);
    return claims.map(({ key, fencingNumber }, i) => {
      const newest = tokens[i] as number;
      if (newest > fencingNumber) return { key, newest };
      return unreadable(CLAIM, `it has no row for a key whose token is ${newest} there`);
    });
  }

  async arm(bounds: TransactionBounds): Promise<void> {
    if (!limitsAnything(bounds)) return;
    const isLater = this.#hasArmed;
    const expected = this.#expected();
    if (expected !== undefined) {
      const arming = expectantArming(expected.armingFor(bounds, Infinity));
      if (ARMED.test(textIn(await this.#send(arming), ARMING))) return;
    }
    const limits = textIn(await this.#send(generalArming(bounds)), ARMING);
    if (!isLater) this.#limits.learn(limits);
  }

  assertBegun(): void {
    if (this.#connection?.transactionStatus === 'none') throw transactionGone();
  }

  /** The expected limits of the session itself; undefined if unknown or no longer useful. */
  #expected(): ExpectedLimits | undefined {
    if (this.#hasArmed) return undefined;
    this.#hasArmed = true;
    return this.#limits.expected;
  }

  /**
   * COMMIT does not fail if the transaction was aborted. The driver may know; if not, any statement would reveal it.
   */
  async beforeCommit(idleMs: number | undefined): Promise<void> {
    if (idleMs === undefined || idleMs <= 0) {
      await readArrived(); // a lost connection or lock may have arrived unread
      if (this.#connection?.transactionStatus === 'open') return;
    }
    const isGone = this.#connection?.transactionStatus === 'none';
    const answer = await this.#send(lastLook(idleMs)); // an ORM that has ended it throws its own error
    if (isGone) throw transactionGone();
    const look = textIn(answer, LAST_LOOK);
    if (LAST_LOOKS.outside.test(look)) throw transactionGone();
    if (!LAST_LOOKS.inside.test(look)) unreadable(LAST_LOOK, `it is ${shownValue(look)}`);
  }

  async isolation(): Promise<string> {
    const sql = `SELECT current_setting('transaction_isolation') AS level`;
    return textIn(await this.#query(sql, []), 'the question for the isolation level');
  }

  #send({ sql, params }: Statement): Promise<unknown> {
    return this.#query(sql, params);
  }
}
