import type { SqlDialect } from '../sql/database-session.js';
import { dialectOf } from '../sql/session-of.js';

/** The properties by which transactions of known ORMs show their database. */
interface MaybeKnown {
  /** TypeORM: an EntityManager. */
  readonly connection?: { readonly options?: { readonly type?: unknown } };
  /** Knex. */
  readonly client?: { readonly dialect?: unknown };
  /** Drizzle. */
  readonly dialect?: { readonly constructor?: { readonly [kind: symbol]: unknown } };
  /** Kysely. */
  readonly getExecutor?: () => {
    readonly adapter?: { readonly constructor?: { readonly name?: string } };
  };
  /** Prisma: `postgresql`, `mysql`. */
  readonly _activeProvider?: unknown;
  /** pg-promise, which supports only PostgreSQL. */
  readonly oneOrNone?: unknown;
}

const DRIZZLE_KIND = Symbol.for('drizzle:entityKind');

/** @param tx the ORM's transaction object @returns undefined if it does not show its database */
export function knownDialect(tx: object): SqlDialect | undefined {
  const { connection, client, dialect, getExecutor, _activeProvider, oneOrNone } = tx as MaybeKnown;
  const kysely =
    typeof getExecutor === 'function' ? getExecutor.call(tx).adapter?.constructor?.name : undefined;
  return (
    dialectOf(connection?.options?.type) ??
    dialectOf(client?.dialect) ??
    dialectOf(withoutSuffix(dialect?.constructor?.[DRIZZLE_KIND], 'Dialect')) ??
    dialectOf(withoutSuffix(kysely, 'Adapter')) ??
    dialectOf(_activeProvider) ??
    (typeof oneOrNone === 'function' ? 'postgres' : undefined)
  );
}

/** `MysqlAdapter` → `Mysql`. */
function withoutSuffix(name: unknown, suffix: string): string | undefined {
  return typeof name === 'string' && name.endsWith(suffix)
    ? name.slice(0, -suffix.length)
    : undefined;
}
