import type { FenceClaim, TransactionBounds } from './database-session.js';
import { LIMITS, type Setting, SHOWN_LIMITS } from './session-limits.js';

/** One statement for PostgreSQL. Each parameter is used once and in order, so that drivers with `?` can have it too. */
export interface Statement {
  readonly sql: string;
  readonly params: unknown[];
}

/** Whether there is anything to arm. */
export function limitsAnything(bounds: TransactionBounds): boolean {
  return LIMITS.some(([bound]) => (bounds[bound] ?? 0) > 0);
}

/** Claims the keys, and arms nothing. Its rows are the keys whose claim was accepted. */
export function plainClaim(table: string, claims: readonly FenceClaim[]): Statement {
  const params = new Parameters();
  const rows = claims.map((claim) => `(${values(claim, params)})`);
  return params.statement(upsert(table, `VALUES ${rows.join(', ')}`));
}

/**
 * Arms the time-outs if the session has the limits that are expected, and claims the keys if so. Its rows are the keys
 * whose claim was accepted: none if the limits are others.
 */
export function expectantClaim(
  table: string,
  claims: readonly FenceClaim[],
  shown: string,
  settings: readonly Setting[],
): Statement {
  const params = new Parameters();
  const [only, ...others] = claims as [FenceClaim, ...FenceClaim[]];
  if (others.length === 0) {
    // Without the other form, PostgreSQL has less to plan.
    const row = `SELECT ${values(only, params)}`;
    const source = `${row} WHERE ${armingIf(shown, settings, params)} <> ''`;
    return params.statement(upsert(table, source));
  }
  const arming = `WITH armed AS MATERIALIZED (SELECT ${armingIf(shown, settings, params)} AS done)`;
  return params.statement(`${arming} ${upsert(table, onceArmed(claims, params))}`);
}

/** Arms the time-outs, whatever limits the session has, and claims the keys. Its rows have these limits, too. */
export function generalClaim(
  table: string,
  claims: readonly FenceClaim[],
  bounds: TransactionBounds,
): Statement {
  const params = new Parameters();
  const arming = armingOverAny(bounds, params);
  return params.statement(
    `${arming}, claimed AS (${upsert(table, onceArmed(claims, params))})
      SELECT lock_key, (SELECT limits FROM armed) AS limits FROM claimed`,
  );
}

/** Its row has no text as `armed` if the session has other limits than those expected: then nothing was set. */
export function expectantArming(shown: string, settings: readonly Setting[]): Statement {
  const params = new Parameters();
  return params.statement(`SELECT ${armingIf(shown, settings, params)} AS armed`);
}

/** Its row has the limits of the session. */
export function generalArming(bounds: TransactionBounds): Statement {
  const params = new Parameters();
  return params.statement(`${armingOverAny(bounds, params)} SELECT limits, done FROM armed`);
}

/** Limits how long the transaction may be idle, unless it is limited more strictly already. */
export function idleArming(idleMs: number): Statement {
  const params = new Parameters();
  const [[, name]] = LIMITS;
  return params.statement(`SELECT ${setToSmaller(name, idleMs, params)}`);
}

function values({ key, fencingNumber }: FenceClaim, params: Parameters): string {
  return `${params.add(key)}::text, ${params.add(String(fencingNumber))}::bigint`;
}

/** The rows come from what was armed, in their order, so that the time-outs bound the wait for the first one, too. */
function onceArmed(claims: readonly FenceClaim[], params: Parameters): string {
  return claims
    .map((claim) => `SELECT ${values(claim, params)} FROM armed WHERE done <> ''`)
    .join(' UNION ALL ');
}

function upsert(table: string, source: string): string {
  return `INSERT INTO ${table} AS f (lock_key, token) ${source}
      ON CONFLICT (lock_key) DO UPDATE SET token = EXCLUDED.token WHERE f.token <= EXCLUDED.token
      RETURNING lock_key`;
}

/** CASE evaluates nothing before its condition. */
function armingIf(shown: string, settings: readonly Setting[], params: Parameters): string {
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
      armed AS MATERIALIZED (SELECT limits, ${settings.join(' || ')} AS done FROM former)`;
}

/** The setting or the given milliseconds, whichever is stricter: a role may have a limit of its own. 0 is no limit. */
function setToSmaller(name: string, ms: number, params: Parameters): string {
  const given = params.add(String(Math.floor(ms)));
  const smaller = `LEAST(NULLIF(${msOf(name)}, 0), ${given}::text::float8)`;
  return `set_config('${name}', ${smaller}::bigint::text, true)`;
}

/** PostgreSQL shows its settings with units that an interval has, too: `500ms`, `10s`, `1min`. */
function msOf(name: string): string {
  return `EXTRACT(epoch FROM current_setting('${name}', true)::interval)::float8 * 1000`;
}

/** The setting exists since PostgreSQL 17; a time-out that runs already is only replaced after it was switched off. */
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
