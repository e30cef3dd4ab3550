import type { FenceClaim, TransactionBounds } from './database-session.js';
import { type Arming, LIMITS, SHOWN_LIMITS } from './session-limits.js';

/** One statement for PostgreSQL. Each parameter is used once and in order, so that it also suits drivers with `?`. */
export interface Statement {
  readonly sql: string;
  readonly params: unknown[];
}

/** Whether there is anything to arm. */
export function limitsAnything(bounds: TransactionBounds): boolean {
  return LIMITS.some(([bound]) => (bounds[bound] ?? 0) > 0);
}

/** Separates the limits of the session, if returned, from the key in a row of a claim. */
const KEY_FOLLOWS = '|';

/** A row of a claim. */
export interface ClaimRow {
  /** The limits of the session; empty if the statement does not return them. */
  readonly limits: string;
  /** A key whose claim was accepted; empty if none was. */
  readonly key: string;
}

/**
 * Every answer has one column, whose value cannot be mistaken for another type, because applications map the names of
 * columns and parse values. @returns undefined if the string is not from a claim
 */
export function readClaim(text: string): ClaimRow | undefined {
  const at = text.indexOf(KEY_FOLLOWS);
  return at < 0 ? undefined : { limits: text.slice(0, at), key: text.slice(at + 1) };
}

/** Claims the keys, all in one way, without arming anything. Its rows are the keys whose claim was accepted. */
export function plainClaim(table: string, claims: readonly FenceClaim[]): Statement {
  const params = new Parameters();
  const rows = claims.map((claim) => `(${values(claim, params)})`);
  const source = `VALUES ${rows.join(', ')}`;
  if (!areShared(claims)) return params.statement(write(table, source));
  return params.statement(`WITH ${share(table, source)} SELECT answer FROM claimed`);
}

/**
 * Arms the time-outs and claims the keys if the session has the expected limits. Its rows are the keys whose claim was
 * accepted; none if the limits differ.
 */
export function expectantClaim(
  table: string,
  claims: readonly FenceClaim[],
  arming: Arming,
): Statement {
  if (arming.wait !== undefined) return impatientClaim(table, claims, arming, arming.wait);
  const params = new Parameters();
  const [only, ...others] = claims as [FenceClaim, ...FenceClaim[]];
  if (others.length === 0 && !only.isShared) {
    // This form is cheaper to plan than the other.
    const row = `SELECT ${values(only, params)}`;
    const source = `${row} WHERE ${armingIf(arming, params)} <> ''`;
    return params.statement(write(table, source));
  }
  const armed = `WITH armed AS MATERIALIZED (SELECT ${armingIf(arming, params)} AS done)`;
  return params.statement(
    `${armed}, ${claimed(table, claims, params, 'armed')} SELECT answer FROM claimed`,
  );
}

/** The same, with a shorter wait for the rows than later statements have. */
function impatientClaim(
  table: string,
  claims: readonly FenceClaim[],
  arming: Arming,
  { ms, afterwards }: NonNullable<Arming['wait']>,
): Statement {
  const params = new Parameters();
  const wait = { name: 'lock_timeout', value: String(ms) } as const;
  const shorter = { ...arming, settings: [...arming.settings, wait] };
  const armed = `WITH armed AS MATERIALIZED (SELECT ${armingIf(shorter, params)} AS done)`;
  const claiming = claimed(table, claims, params, 'armed');
  const restored = restoring(`${params.add(String(afterwards))}::text`, 'armed');
  return params.statement(
    `${armed}, ${claiming}, ${restored}
      SELECT COALESCE(answer, '${KEY_FOLLOWS}') AS answer FROM restored LEFT JOIN claimed ON true`,
  );
}

/**
 * Arms the time-outs for any limits of the session, and claims the keys. Its rows include these limits; without a key
 * if no claim was accepted.
 */
export function generalClaim(
  table: string,
  claims: readonly FenceClaim[],
  bounds: TransactionBounds,
  waitMs: number,
): Statement {
  const params = new Parameters();
  const arming = armingOverAny(bounds, params);
  if (waitMs === Infinity) {
    return params.statement(
      `${arming}, ${claimed(table, claims, params, 'armed')}
        SELECT concat((SELECT limits FROM armed), answer) AS answer FROM claimed`,
    );
  }
  const shorter = `done || ${setToSmaller('lock_timeout', waitMs, params)}`;
  const waiting = `waiting AS MATERIALIZED
      (SELECT current_setting('lock_timeout') AS afterwards, ${shorter} AS done FROM armed)`;
  const claiming = claimed(table, claims, params, 'waiting');
  const restored = restoring(`(SELECT afterwards FROM waiting)`, 'waiting');
  return params.statement(
    `${arming}, ${waiting}, ${claiming}, ${restored}
      SELECT concat((SELECT limits FROM armed), COALESCE(answer, '${KEY_FOLLOWS}')) AS answer
      FROM restored LEFT JOIN claimed ON true`,
  );
}

/** The answer of `expectantArming` if it has armed; otherwise the session has other limits, and nothing was set. */
export const ARMED = /^armed/;

/** Arms the time-outs if the session has the expected limits; its row says whether it has. */
export function expectantArming(arming: Arming): Statement {
  const params = new Parameters();
  return params.statement(`SELECT COALESCE(${armingIf(arming, params)}, 'not') AS answer`);
}

/** Arms the time-outs for any limits of the session, which its row contains. */
export function generalArming(bounds: TransactionBounds): Statement {
  const params = new Parameters();
  return params.statement(
    `${armingOverAny(bounds, params)} SELECT limits AS answer FROM armed WHERE done <> ''`,
  );
}

/** The beginnings of the answer to `lastLook`. */
export const LAST_LOOKS = { inside: /^inside/, outside: /^outside/ };

/**
 * Checks right before COMMIT whether a transaction is open and usable: outside one, a statement begins at the same
 * moment as its transaction. Sets the idle time-out of the transaction, unless a stricter one is in force.
 */
export function lastLook(idleMs: number | undefined): Statement {
  const params = new Parameters();
  const [[, name]] = LIMITS;
  const arming =
    idleMs === undefined || idleMs <= 0 ? '' : `, ${setToSmaller(name, idleMs, params)}`;
  const inside = `CASE WHEN now() <> statement_timestamp() THEN 'inside' ELSE 'outside' END`;
  return params.statement(`SELECT concat(${inside}${arming}) AS answer`);
}

/** Its row has the token of each key in order, or 0 if there is none, separated by spaces. */
export function tokensOf(table: string, claims: readonly FenceClaim[]): Statement {
  const params = new Parameters();
  const tokens = claims.map(
    ({ key }) =>
      `COALESCE((SELECT token FROM ${table} WHERE lock_key = ${params.add(key)}::text), 0)`,
  );
  return params.statement(`SELECT concat_ws(' ', ${tokens.join(', ')}) AS answer`);
}

function values({ key, fencingNumber }: FenceClaim, params: Parameters): string {
  return `${params.add(key)}::text, ${params.add(String(fencingNumber))}::bigint`;
}

/**
 * Selects the rows from the armed settings, in their order, so that the time-outs also bound the wait for the first
 * row.
 */
function onceArmed(claims: readonly FenceClaim[], params: Parameters, armed: string): string {
  return claims
    .map((claim) => `SELECT ${values(claim, params)} FROM ${armed} WHERE done <> ''`)
    .join(' UNION ALL ');
}

/**
 * Restores the lock time-out after all claims, accepted or refused, on which the count depends, and only if something
 * was armed.
 */
function restoring(afterwards: string, armed: string): string {
  return `restored AS MATERIALIZED (SELECT set_config('lock_timeout', ${afterwards}, true)
      FROM (SELECT count(*) AS claims FROM claimed) AS done
      WHERE claims >= 0 AND (SELECT done FROM ${armed}) <> '')`;
}

function areShared(claims: readonly FenceClaim[]): boolean {
  return claims[0]?.isShared === true;
}

/** The keys whose claim was accepted, as the table `claimed`. */
function claimed(
  table: string,
  claims: readonly FenceClaim[],
  params: Parameters,
  armed: string,
): string {
  const source = onceArmed(claims, params, armed);
  return areShared(claims) ? share(table, source) : `claimed AS (${write(table, source)})`;
}

/**
 * A key that has no row gets one, so that the next writer waits; other readers wait as well, because the row is new.
 * The other rows are locked in order, also those that a newer writer has claimed. If another transaction makes a row at
 * the same time, its key is not among the accepted ones.
 *
 * A row that was made is not read: at SERIALIZABLE, transactions that read where others make rows depend on them.
 */
function share(table: string, source: string): string {
  return `wanted (lock_key, token) AS MATERIALIZED (${source}),
      made AS (INSERT INTO ${table} (lock_key, token) SELECT lock_key, 0 FROM wanted
        ON CONFLICT (lock_key) DO NOTHING RETURNING lock_key),
      present AS MATERIALIZED (SELECT lock_key, token FROM wanted
        WHERE lock_key <> ALL (ARRAY(SELECT lock_key FROM made))),
      held AS MATERIALIZED (SELECT f.lock_key, f.token <= present.token AS is_fresh
        FROM present CROSS JOIN LATERAL
          (SELECT lock_key, token FROM ${table} WHERE lock_key = present.lock_key FOR SHARE) AS f),
      claimed AS (SELECT '${KEY_FOLLOWS}' || lock_key AS answer FROM held WHERE is_fresh
        UNION ALL SELECT '${KEY_FOLLOWS}' || lock_key FROM made)`;
}

function write(table: string, source: string): string {
  return `INSERT INTO ${table} AS f (lock_key, token) ${source}
      ON CONFLICT (lock_key) DO UPDATE SET token = EXCLUDED.token WHERE f.token <= EXCLUDED.token
      RETURNING '${KEY_FOLLOWS}' || lock_key AS answer`;
}

/** CASE evaluates nothing before its condition. */
function armingIf({ shown, settings }: Arming, params: Parameters): string {
  const condition = `${SHOWN_LIMITS} = ${params.add(shown)}`;
  const set = settings.map(
    ({ name, value }) => `set_config('${name}', ${params.add(value)}, true)`,
  );
  return `CASE WHEN ${condition} THEN ${[`'armed'`, ...set].join(' || ')} END`;
}

function armingOverAny(bounds: TransactionBounds, params: Parameters): string {
  const settings = LIMITS.flatMap(([bound, name]) => {
    const ms = bounds[bound] ?? 0;
    if (ms === 0) return [];
    return name === 'transaction_timeout' ? setTotal(ms, params) : setToSmaller(name, ms, params);
  });
  return `WITH former AS MATERIALIZED (SELECT ${SHOWN_LIMITS} AS limits),
      armed AS MATERIALIZED (SELECT limits, ${["'armed'", ...settings].join(' || ')} AS done FROM former)`;
}

/**
 * The setting or the given milliseconds, whichever is stricter, because a role may have its own limit. 0 is no limit.
 */
function setToSmaller(name: string, ms: number, params: Parameters): string {
  const given = params.add(String(Math.floor(ms)));
  const smaller = `LEAST(NULLIF(${msOf(name)}, 0), ${given}::text::float8)`;
  return `set_config('${name}', ${smaller}::bigint::text, true)`;
}

/** PostgreSQL shows its settings with the units of an interval: `500ms`, `10s`, `1min`. */
function msOf(name: string): string {
  return `EXTRACT(epoch FROM current_setting('${name}', true)::interval)::float8 * 1000`;
}

/** The setting exists since PostgreSQL 17; a running time-out is only replaced after it was switched off. */
function setTotal(ms: number, params: Parameters): string {
  return `(SELECT CASE WHEN current_setting('server_version_num')::int >= 170000
      AND (present.ms = 0 OR given.ms < present.ms)
    THEN set_config('transaction_timeout', '0', true)
      || set_config('transaction_timeout', given.ms::bigint::text, true) ELSE '' END
    FROM (SELECT ${msOf('transaction_timeout')} AS ms OFFSET 0) AS present,
      (SELECT ${params.add(String(Math.floor(ms)))}::text::float8 AS ms OFFSET 0) AS given)`;
}

class Parameters {
  readonly #values: unknown[] = [];

  add(value: unknown): string {
    this.#values.push(value);
    return `$${this.#values.length}`;
  }

  statement(sql: string): Statement {
    return { sql, params: this.#values };
  }
}
