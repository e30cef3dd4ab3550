import { shownValue } from '../../core/runtime/shown-value.js';
import type {
  ClaimOutcome,
  DatabaseSession,
  FenceClaim,
  RefusedClaim,
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
const UNKNOWN_VARIABLE = 1193;
const NO_SUCH_SAVEPOINT = 1305;
/** The error for SAVEPOINT as a prepared statement, the only kind that some drivers send. */
const NOT_PREPARABLE = 1295;
const SAVEPOINT = 'nestjs_locked';
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

  /**
   * The upsert takes and keeps the row's lock. It makes no snapshot, so that later reads see what earlier claims have
   * committed.
   */
  async claim(
    table: string,
    claims: readonly FenceClaim[],
    _bounds: TransactionBounds | undefined,
    waitMs: number,
  ): Promise<ClaimOutcome> {
    let written: readonly Row[];
    try {
      written = await this.#write(table, claims, waitMs);
    } catch (cause) {
      const code = sqlErrorCode(cause);
      if (code === DEADLOCK || code === CHECKREAD) return { kind: 'conflict', cause };
      if (code === LOCK_WAIT_TIMEOUT) return { kind: 'blocked', cause };
      throw cause;
    }
    const doubtful = claims.filter(
      ({ fencingNumber }, i) => textOf(onlyValueOf(written[i])) !== String(fencingNumber),
    );
    if (doubtful.length === 0) return { kind: 'claimed' };
    const newest = await this.#newest(table, doubtful);
    const refused = newest.filter(
      ({ newest }, i) => newest !== (doubtful[i] as FenceClaim).fencingNumber,
    );
    return refused.length === 0 ? { kind: 'claimed' } : { kind: 'fenced', refused };
  }

  /** @returns a row for each claim with the token now stored; none if the server or the driver does not report it */
  async #write(
    table: string,
    claims: readonly FenceClaim[],
    waitMs: number,
  ): Promise<readonly Row[]> {
    const sql = `INSERT INTO ${table} (lock_key, token) VALUES ${claims.map(() => '(?, ?)').join(', ')}
        ON DUPLICATE KEY UPDATE token = GREATEST(token, VALUES(token))`;
    const params = claims.flatMap(({ key, fencingNumber }) => [key, fencingNumber]);
    if (this.#database.hasReturning) {
      try {
        const written = `${waitingAtMost(waitMs)}${sql} RETURNING token`;
        return rowsIn(await this.#query(written, params)) ?? [];
      } catch (error) {
        if (sqlErrorCode(error) !== PARSE_ERROR) throw error;
        this.#database.hasReturning = false;
      }
    }
    await this.#query(sql, params);
    return [];
  }

  /**
   * Reads the tokens as one string in the order of the claims, because drivers represent binary keys differently, and
   * applications map the names of columns. A locking read, because a snapshot may be older than the refusing token.
   */
  async #newest(table: string, claims: readonly FenceClaim[]): Promise<readonly RefusedClaim[]> {
    const tokens = claims.map(
      () => `COALESCE((SELECT token FROM ${table} WHERE lock_key = ? LOCK IN SHARE MODE), 0)`,
    );
    const sql = `SELECT CONCAT_WS(' ', ${tokens.join(', ')}) AS answer`;
    const keys = claims.map(({ key }) => key);
    const newest = tokensIn(await this.#query(sql, keys), claims.length);
    return claims.map(({ key, fencingNumber }, i) => {
      const token = newest[i] as number;
      if (token >= fencingNumber) return { key, newest: token };
      return unreadable('the claim of the fence', `a token that was written is ${token} there`);
    });
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

/**
 * Limits the lock wait of one statement. Only MariaDB can, in whole seconds; MySQL waits for the time-out of the
 * session.
 */
function waitingAtMost(waitMs: number): string {
  if (waitMs === Infinity) return '';
  const seconds = Math.ceil(waitMs / 1_000);
  return `SET STATEMENT innodb_lock_wait_timeout = LEAST(@@innodb_lock_wait_timeout, ${seconds}) FOR `;
}
