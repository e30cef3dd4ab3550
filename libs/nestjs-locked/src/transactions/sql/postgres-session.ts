import { readArrived } from '../../core/runtime/arrived-messages.js';
import { shownValue } from '../../core/runtime/shown-value.js';
import { inOneWay, refusedBy } from './claims.js';
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
import type { ExpectedLimits } from './session-limits.js';
import { sqlErrorCode } from './sql-error.js';
import { transactionGone } from './transaction-gone.js';

const SERIALIZATION_FAILURE = '40001';
const DEADLOCK = '40P01';
const READ_ONLY = '25006';
/** Both mean that another transaction had the row for too long: the wait, or the waiting statement, was cancelled. */
const WAITED_TOO_LONG: readonly unknown[] = ['55P03', '57014'];

/** How often readers claim while others make and delete the same rows. */
const MAX_TRIES = 3;

const CLAIM = 'the claim of the fence';
const ARMING = 'the statement that arms the time-outs';
const READING = 'the question whether the transaction is read-only';
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
  readonly #database: KnownDatabase;
  readonly #connection: ConnectionState | undefined;
  /** Whether the session now shows our limits instead of its own. */
  #hasArmed = false;

  /** @param connection the state known to its driver; undefined if there is none and the database has to be asked */
  constructor(query: TransactionQuery, database: KnownDatabase, connection?: ConnectionState) {
    this.#query = query;
    this.#database = database;
    this.#connection = connection;
  }

  async begin(): Promise<void> {}

  /** Claims with one statement, unless the keys are claimed in different ways. */
  async claim(
    table: string,
    claims: readonly FenceClaim[],
    bounds: TransactionBounds = {},
    waitMs: number,
  ): Promise<ClaimOutcome> {
    let toArm = bounds;
    for (const run of inOneWay(claims)) {
      const claim = run[0]?.isShared === true ? this.#share : this.#write;
      const outcome = await claim.call(this, table, run, toArm, waitMs).catch(understood);
      if (outcome.kind !== 'claimed') return outcome;
      toArm = {};
    }
    return { kind: 'claimed' };
  }

  /**
   * The upsert takes the row's lock even if its WHERE refuses the row, and keeps it until the transaction has ended:
   * transactions on one key run one after the other, and commit in the order of their tokens.
   */
  async #write(
    table: string,
    claims: readonly FenceClaim[],
    bounds: TransactionBounds,
    waitMs: number,
  ): Promise<ClaimOutcome> {
    const claimed = await this.#claimed(table, claims, bounds, waitMs);
    const refused = claims.filter(({ key }) => !claimed.has(key));
    if (refused.length === 0) return { kind: 'claimed' };
    // This transaction has locked the rows that refused the claims, so it can see them.
    const newer = await this.#newerThan(table, refused);
    if (newer.length === refused.length) return { kind: 'fenced', refused: newer };
    return unreadable(CLAIM, 'it has no row for a key that nobody else has claimed');
  }

  /**
   * Any error, such as that of a read-only transaction, ends the transaction. That one is begun again, and readers of
   * this database ask from then on.
   */
  async #share(
    table: string,
    claims: readonly FenceClaim[],
    bounds: TransactionBounds,
    waitMs: number,
  ): Promise<ClaimOutcome> {
    if (this.#database.hasReadOnly && (await this.#isReadOnly())) {
      await this.arm(bounds);
      return { kind: 'claimed' };
    }
    for (let tries = 1; tries <= MAX_TRIES; tries++) {
      let claimed: ReadonlySet<string>;
      try {
        claimed = await this.#claimed(table, claims, tries === 1 ? bounds : {}, waitMs);
      } catch (cause) {
        if (sqlErrorCode(cause) !== READ_ONLY) throw cause;
        this.#database.hasReadOnly = true;
        return { kind: 'conflict', cause };
      }
      const refused = claims.filter(({ key }) => !claimed.has(key));
      if (refused.length === 0) return { kind: 'claimed' };
      const newer = await this.#newerThan(table, refused);
      if (newer.length > 0) return { kind: 'fenced', refused: newer };
    } // another transaction has made the row at the same time
    return unreadable(CLAIM, 'it has no row for a key that is in the table');
  }

  async #isReadOnly(): Promise<boolean> {
    const sql = `SELECT current_setting('transaction_read_only') AS answer`;
    return textIn(await this.#query(sql, []), READING) === 'on';
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
    if (limits !== undefined && !isLater) this.#database.limits.learn(limits);
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

  /** Those of the keys that have a newer token than the claim. */
  async #newerThan(table: string, claims: readonly FenceClaim[]): Promise<readonly RefusedClaim[]> {
    return refusedBy(tokensIn(await this.#send(tokensOf(table, claims)), claims.length), claims);
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
    if (!isLater) this.#database.limits.learn(limits);
  }

  assertBegun(): void {
    if (this.#connection?.transactionStatus === 'none') throw transactionGone();
  }

  /** The expected limits of the session itself; undefined if unknown or no longer useful. */
  #expected(): ExpectedLimits | undefined {
    if (this.#hasArmed) return undefined;
    this.#hasArmed = true;
    return this.#database.limits.expected;
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

/** @throws the error if it is none of the outcomes */
function understood(cause: unknown): ClaimOutcome {
  const code = sqlErrorCode(cause);
  if (code === SERIALIZATION_FAILURE || code === DEADLOCK) return { kind: 'conflict', cause };
  if (WAITED_TOO_LONG.includes(code)) return { kind: 'blocked', cause };
  throw cause;
}
