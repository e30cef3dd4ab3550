import type {
  ClaimOutcome,
  DatabaseSession,
  FenceClaim,
  TransactionBounds,
  TransactionQuery,
} from './database-session.js';
import { rowsOf } from './rows-of.js';
import { sqlErrorCode } from './sql-error.js';

const SERIALIZATION_FAILURE = '40001';
const DEADLOCK = '40P01';
const LOCK_NOT_AVAILABLE = '55P03';

/** PostgreSQL 12 and later. All settings end with the transaction, so that they are right behind a transaction pooler. */
export class PostgresSession implements DatabaseSession {
  readonly #query: TransactionQuery;

  constructor(query: TransactionQuery) {
    this.#query = query;
  }

  /**
   * One statement. The upsert takes the row's lock even if its WHERE refuses the row, and keeps it until the
   * transaction has ended: transactions on one key run one after the other, and commit in the order of their tokens.
   */
  async claim(
    table: string,
    claims: readonly FenceClaim[],
    bounds: TransactionBounds | undefined,
  ): Promise<ClaimOutcome> {
    const params = new Parameters();
    const row = ({ key, token }: FenceClaim): string =>
      `SELECT ${params.add(key)}::text, ${params.add(String(token))}::bigint`;
    const [first, ...rest] = claims as [FenceClaim, ...FenceClaim[]];
    const firstRow = row(first);
    const settings = settingsOf(bounds ?? {}, params);
    // Done for the first row, so that it bounds the wait for that one, too.
    const armed = settings.length === 0 ? '' : ` WHERE ${settings.join(' || ')} <> ''`;
    const rows = [firstRow + armed, ...rest.map(row)].join(' UNION ALL ');
    const sql = `INSERT INTO ${table} AS f (lock_key, token) ${rows}
      ON CONFLICT (lock_key) DO UPDATE SET token = EXCLUDED.token WHERE f.token <= EXCLUDED.token
      RETURNING lock_key`;
    let claimed: ReadonlySet<unknown>;
    try {
      const rows = rowsOf(await this.#query(sql, params.values));
      claimed = new Set(rows.map((row) => row['lock_key']));
    } catch (cause) {
      const code = sqlErrorCode(cause);
      if (code === SERIALIZATION_FAILURE || code === DEADLOCK) return { kind: 'conflict', cause };
      if (code === LOCK_NOT_AVAILABLE) return { kind: 'blocked', cause };
      throw cause;
    }
    const refused = claims.find(({ key }) => !claimed.has(key));
    if (refused === undefined) return { kind: 'claimed' };
    return { kind: 'fenced', key: refused.key, newest: await this.#newest(table, refused) };
  }

  async #newest(table: string, { key, token }: FenceClaim): Promise<number> {
    const answer = await this.#query(`SELECT token FROM ${table} WHERE lock_key = $1`, [key]);
    return Math.max(Number(rowsOf(answer)[0]?.['token'] ?? 0), token + 1);
  }

  async arm(bounds: TransactionBounds): Promise<void> {
    const params = new Parameters();
    const settings = settingsOf(bounds, params);
    if (settings.length > 0) await this.#query(`SELECT ${settings.join(', ')}`, params.values);
  }

  /** Any statement would do to learn that the transaction was aborted: COMMIT itself would not say so. */
  async beforeCommit(idleMs: number | undefined): Promise<void> {
    await this.#query(
      idleMs === undefined
        ? 'SHOW transaction_isolation'
        : `SET LOCAL idle_in_transaction_session_timeout = ${Math.floor(idleMs)}`,
      [],
    );
  }

  async isolation(): Promise<string> {
    const answer = await this.#query(
      `SELECT current_setting('transaction_isolation') AS level`,
      [],
    );
    return String(rowsOf(answer)[0]?.['level']);
  }
}

/** Bound values, each used once and in this order, so that drivers with `?` can have them too. */
class Parameters {
  readonly values: unknown[] = [];

  add(value: unknown): string {
    this.values.push(value);
    return `$${this.values.length}`;
  }
}

/** Expressions of type text that set what is given. */
function settingsOf(bounds: TransactionBounds, params: Parameters): string[] {
  const { idleMs, statementMs, lockMs, totalMs } = bounds;
  const set = (name: string, ms: number | undefined): string[] =>
    ms === undefined ? [] : [`set_config('${name}', ${params.add(String(ms))}::text, true)`];
  return [
    ...set('idle_in_transaction_session_timeout', idleMs),
    ...set('statement_timeout', statementMs),
    ...set('lock_timeout', lockMs),
    ...(totalMs === undefined ? [] : [totalSetting(totalMs, params)]),
  ];
}

/** Exists since PostgreSQL 17, and one that runs already is only replaced after it was switched off. */
function totalSetting(totalMs: number, params: Parameters): string {
  return `CASE WHEN current_setting('server_version_num')::int >= 170000 THEN
    set_config('transaction_timeout', '0', true)
    || set_config('transaction_timeout', ${params.add(String(totalMs))}::text, true) ELSE '' END`;
}
