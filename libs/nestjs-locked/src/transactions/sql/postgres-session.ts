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
/** Both mean that another transaction had the row for too long: the wait, or the statement that waited, was ended. */
const WAITED_TOO_LONG: readonly unknown[] = ['55P03', '57014'];

/** PostgreSQL 12 and later. All settings end with the transaction, so that they also suit a transaction pooler. */
export class PostgresSession implements DatabaseSession {
  readonly armsBounds = true;
  readonly #query: TransactionQuery;

  constructor(query: TransactionQuery) {
    this.#query = query;
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
  ): Promise<ClaimOutcome> {
    const params = new Parameters();
    const row = ({ key, fencingNumber }: FenceClaim): string =>
      `SELECT ${params.add(key)}::text, ${params.add(String(fencingNumber))}::bigint`;
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
      if (WAITED_TOO_LONG.includes(code)) return { kind: 'blocked', cause };
      throw cause;
    }
    const refused = claims.find(({ key }) => !claimed.has(key));
    if (refused === undefined) return { kind: 'claimed' };
    return { kind: 'fenced', key: refused.key, newest: await this.#newest(table, refused) };
  }

  async #newest(table: string, { key, fencingNumber }: FenceClaim): Promise<number> {
    const answer = await this.#query(`SELECT token FROM ${table} WHERE lock_key = $1`, [key]);
    return Math.max(Number(rowsOf(answer)[0]?.['token'] ?? 0), fencingNumber + 1);
  }

  async arm(bounds: TransactionBounds): Promise<void> {
    const params = new Parameters();
    const settings = settingsOf(bounds, params);
    if (settings.length > 0) await this.#query(`SELECT ${settings.join(', ')}`, params.values);
  }

  /** Any statement would do to learn that the transaction was aborted: COMMIT itself would not say so. */
  async beforeCommit(idleMs: number | undefined): Promise<void> {
    const params = new Parameters();
    const [setting] = settingsOf(idleMs === undefined ? {} : { idleMs }, params);
    const sql = setting === undefined ? 'SHOW transaction_isolation' : `SELECT ${setting}`;
    await this.#query(sql, params.values);
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
  const { idleMs = 0, statementMs = 0, lockMs = 0, totalMs = 0 } = bounds;
  const set = (name: string, ms: number): string[] =>
    ms === 0
      ? []
      : [`set_config('${name}', ${smaller(name, params.add(String(Math.floor(ms))))}, true)`];
  return [
    ...set('idle_in_transaction_session_timeout', idleMs),
    ...set('statement_timeout', statementMs),
    ...set('lock_timeout', lockMs),
    ...(totalMs === 0 ? [] : [totalSetting(params.add(String(Math.floor(totalMs))))]),
  ];
}

/** The setting or the given milliseconds, whichever is stricter: a role may have a limit of its own. 0 is no limit. */
function smaller(name: string, ms: string): string {
  return `LEAST(NULLIF(${msOf(name)}, 0), ${ms}::text::float8)::bigint::text`;
}

/** PostgreSQL shows its settings with units that an interval has, too: `500ms`, `10s`, `1min`. */
function msOf(name: string): string {
  return `EXTRACT(epoch FROM current_setting('${name}', true)::interval)::float8 * 1000`;
}

/** The setting exists since PostgreSQL 17; a time-out that runs already is only replaced after it was switched off. */
function totalSetting(ms: string): string {
  return `(SELECT CASE WHEN current_setting('server_version_num')::int >= 170000
      AND (present.ms = 0 OR given.ms < present.ms)
    THEN set_config('transaction_timeout', '0', true)
      || set_config('transaction_timeout', given.ms::bigint::text, true) ELSE '' END
    FROM (SELECT ${msOf('transaction_timeout')} AS ms OFFSET 0) AS present,
      (SELECT ${ms}::text::float8 AS ms OFFSET 0) AS given)`;
}
