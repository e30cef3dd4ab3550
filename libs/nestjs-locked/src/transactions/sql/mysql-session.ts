import { shownValue } from '../../core/runtime/shown-value.js';
import { inOneWay, refusedBy } from './claims.js';
import type {
  ClaimOutcome,
  DatabaseSession,
  FenceClaim,
  TransactionBounds,
  TransactionQuery,
} from './database-session.js';
import type { KnownDatabase } from './known-database.js';
import { onlyValueOf, type Row, rowsIn, textIn, textOf, tokensIn, unreadable } from './rows-of.js';
import { statusIn } from './server-status.js';
import { sqlErrorCode } from './sql-error.js';
import { transactionGone } from './transaction-gone.js';

const LOCK_WAIT_TIMEOUT = 1205;
const PARSE_ERROR = 1064;
const DEADLOCK = 1213;
/** MariaDB with innodb_snapshot_isolation: the row has changed since the snapshot. */
const CHECKREAD = 1020;
const READ_ONLY = 1792;
const UNKNOWN_VARIABLE = 1193;
const NO_SUCH_SAVEPOINT = 1305;
/** How often readers look for rows, which may have been deleted since they were seen. */
const MAX_TRIES = 2;
/** The token of a key that has no row. */
const NO_ROW = -1;
/** The error for SAVEPOINT as a prepared statement, the only kind that some drivers send. */
const NOT_PREPARABLE = 1295;
const SAVEPOINT = 'nestjs_locked';
const CLAIM = 'the claim of the fence';
const LAST_LOOK = 'the question whether the transaction is still there';

/**
 * MySQL 8 and MariaDB 10.5, and later. They have no time-outs for a single transaction, and those of a session would
 * stay on the connection, so none are set.
 */
export class MySqlSession implements DatabaseSession {
  readonly dialect = 'mysql';
  readonly armsBounds = false;
  readonly #query: TransactionQuery;
  readonly #database: KnownDatabase;
  #hasSavepoint = false;

  constructor(query: TransactionQuery, database: KnownDatabase) {
    this.#query = query;
    this.#database = database;
  }

  /**
   * Sets a savepoint, which ends with its transaction: if it still exists at the end, so does the original transaction.
   * @throws if there is no transaction, because a hook at its start has ended it
   */
  async begin(): Promise<void> {
    try {
      const answer = await this.#query(`SAVEPOINT ${SAVEPOINT}`, []);
      this.#hasSavepoint = true;
      if (statusIn(answer) === 'none') throw transactionGone();
    } catch (error) {
      if (sqlErrorCode(error) !== NOT_PREPARABLE) throw error;
    }
  }

  /** No claim makes a snapshot, so that later reads see what earlier claims have committed. */
  async claim(
    table: string,
    claims: readonly FenceClaim[],
    _bounds: TransactionBounds | undefined,
    waitMs: number,
  ): Promise<ClaimOutcome> {
    try {
      for (const run of inOneWay(claims)) {
        const claim = run[0]?.isShared === true ? this.#share : this.#write;
        const outcome = await claim.call(this, table, run, waitMs);
        if (outcome.kind !== 'claimed') return outcome;
      }
      return { kind: 'claimed' };
    } catch (cause) {
      const code = sqlErrorCode(cause);
      if (code === DEADLOCK || code === CHECKREAD) return { kind: 'conflict', cause };
      if (code === LOCK_WAIT_TIMEOUT) return { kind: 'blocked', cause };
      throw cause;
    }
  }

  /** The upsert takes and keeps the row's lock. */
  async #write(
    table: string,
    claims: readonly FenceClaim[],
    waitMs: number,
  ): Promise<ClaimOutcome> {
    const written = await this.#upsert(table, claims, waitMs);
    const doubtful = claims.filter(
      ({ fencingNumber }, i) => textOf(onlyValueOf(written[i])) !== String(fencingNumber),
    );
    if (doubtful.length === 0) return { kind: 'claimed' };
    const tokens = await this.#lockedTokens(table, doubtful, Infinity);
    for (const [i, { fencingNumber }] of doubtful.entries()) {
      const token = tokens[i] as number;
      if (token < fencingNumber)
        return unreadable(CLAIM, `a token that was written is ${token} there`);
    }
    return comparedWith(tokens, doubtful);
  }

  /**
   * Reads the tokens, and keeps the rows' locks beside other readers. A row is made only if it is not known to exist,
   * because at REPEATABLE READ, a read that finds none would keep others from making rows of other keys, and on MySQL,
   * an INSERT that finds one may lock the gap before it.
   */
  async #share(
    table: string,
    claims: readonly FenceClaim[],
    waitMs: number,
  ): Promise<ClaimOutcome> {
    let missing = claims.filter(({ key }) => !this.#database.hadRow(table, key));
    for (let tries = 1; tries <= MAX_TRIES; tries++) {
      if (missing.length > 0 && !(await this.#makeRows(table, missing, waitMs)))
        return { kind: 'claimed' };
      const tokens = await this.#lockedTokens(table, claims, waitMs);
      missing = claims.filter((_, i) => tokens[i] === NO_ROW);
      if (missing.length > 0) continue;
      for (const { key } of claims) this.#database.sawRow(table, key);
      return comparedWith(tokens, claims);
    }
    return unreadable(CLAIM, 'a row that was made is missing');
  }

  /** @returns false if the transaction is read-only */
  async #makeRows(table: string, claims: readonly FenceClaim[], waitMs: number): Promise<boolean> {
    const sql = `INSERT IGNORE INTO ${table} (lock_key, token) VALUES ${claims.map(() => '(?, 0)').join(', ')}`;
    const keys = claims.map(({ key }) => key);
    try {
      await this.#send(`${waitingAtMost(waitMs)}${sql}`, sql, keys);
      return true;
    } catch (error) {
      if (sqlErrorCode(error) !== READ_ONLY) throw error;
      return false;
    }
  }

  /** @returns a row for each claim with the token now stored; none if the server or the driver does not report it */
  async #upsert(
    table: string,
    claims: readonly FenceClaim[],
    waitMs: number,
  ): Promise<readonly Row[]> {
    const sql = `INSERT INTO ${table} (lock_key, token) VALUES ${claims.map(() => '(?, ?)').join(', ')}
        ON DUPLICATE KEY UPDATE token = GREATEST(token, VALUES(token))`;
    const params = claims.flatMap(({ key, fencingNumber }) => [key, fencingNumber]);
    const answer = await this.#send(`${waitingAtMost(waitMs)}${sql} RETURNING token`, sql, params);
    return this.#database.isMariaDb ? (rowsIn(answer) ?? []) : [];
  }

  /** @param onMariaDb what MySQL does not understand, and gets `sql` for */
  async #send(onMariaDb: string, sql: string, params: unknown[]): Promise<unknown> {
    if (this.#database.isMariaDb) {
      try {
        return await this.#query(onMariaDb, params);
      } catch (error) {
        if (sqlErrorCode(error) !== PARSE_ERROR) throw error;
        this.#database.isMariaDb = false;
      }
    }
    return this.#query(sql, params);
  }

  /**
   * Reads the tokens as one string in the order of the claims, because drivers represent binary keys differently, and
   * applications map the names of columns. A locking read, because a snapshot may be older than the refusing token.
   */
  async #lockedTokens(
    table: string,
    claims: readonly FenceClaim[],
    waitMs: number,
  ): Promise<readonly number[]> {
    const tokens = claims.map(
      () =>
        `COALESCE((SELECT token FROM ${table} WHERE lock_key = ? LOCK IN SHARE MODE), ${NO_ROW})`,
    );
    const sql = `SELECT CONCAT_WS(' ', ${tokens.join(', ')}) AS answer`;
    const keys = claims.map(({ key }) => key);
    const answer = await this.#send(`${waitingAtMost(waitMs)}${sql}`, sql, keys);
    return tokensIn(answer, claims.length);
  }

  async arm(_bounds: TransactionBounds): Promise<void> {}

  /** Detects a deadlock, which rolls back the whole transaction, so that later statements are committed separately. */
  async beforeCommit(): Promise<void> {
    if (await this.#isGone()) {
      throw transactionGone();
    }
  }

  /** Renews the savepoint, which does not survive the end of the transaction. */
  async mayCommitAgain(): Promise<void> {
    if (this.#hasSavepoint) await this.begin();
  }

  async #isGone(): Promise<boolean> {
    try {
      if (!this.#hasSavepoint) return await this.#isAutonomous();
      await this.#query(`RELEASE SAVEPOINT ${SAVEPOINT}`, []);
      return false;
    } catch (error) {
      if (sqlErrorCode(error) === NO_SUCH_SAVEPOINT) return true;
      throw error;
    }
  }

  /** Only MariaDB reports this. */
  async #isAutonomous(): Promise<boolean> {
    try {
      const sql = `SELECT IF(@@in_transaction, 'inside', 'outside') AS answer`;
      const answer = textIn(await this.#query(sql, []), LAST_LOOK);
      if (answer === 'inside') return false;
      return answer === 'outside' || unreadable(LAST_LOOK, `it is ${shownValue(answer)}`);
    } catch (error) {
      if (sqlErrorCode(error) === UNKNOWN_VARIABLE) return false;
      throw error;
    }
  }

  /**
   * Unknown: the variables have the level of the session, which a level set for one transaction does not change.
   * `information_schema.innodb_trx` has it, but requires a right and reads a cache that can be older than the
   * transaction.
   */
  isolation(): Promise<undefined> {
    return Promise.resolve(undefined);
  }
}

function comparedWith(tokens: readonly number[], claims: readonly FenceClaim[]): ClaimOutcome {
  const refused = refusedBy(tokens, claims);
  return refused.length === 0 ? { kind: 'claimed' } : { kind: 'fenced', refused };
}

/**
 * Limits the lock wait of one statement. Only MariaDB can, in whole seconds; MySQL waits for the time-out of the
 * session.
 */
function waitingAtMost(waitMs: number): string {
  if (waitMs === Infinity) return '';
  const seconds = Math.ceil(waitMs / 1_000);
  return `SET STATEMENT innodb_lock_wait_timeout = LEAST(@@innodb_lock_wait_timeout, ${seconds}) FOR `;
}
