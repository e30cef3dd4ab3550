import type { TransactionQuery } from '../sql/database-session.js';

/** The methods with which transactions of known ORMs run a plain statement. */
interface MaybeKnown {
  /** Prisma. */
  readonly $queryRawUnsafe?: (sql: string, ...params: unknown[]) => Promise<unknown>;
  /** Kysely. */
  readonly executeQuery?: (compiled: object) => Promise<unknown>;
  /** Knex. */
  readonly raw?: (sql: string, params: unknown[]) => Promise<unknown>;
  /** TypeORM, pg-promise, node-postgres. */
  readonly query?: unknown;
  /** Drizzle. */
  readonly execute?: (statement: object) => Promise<unknown>;
}

/** @param tx the ORM's transaction object @returns undefined if the ORM is unknown */
export function knownQuery(tx: object): TransactionQuery | undefined {
  const { $queryRawUnsafe, executeQuery, raw, query, execute } = tx as MaybeKnown;
  if (typeof $queryRawUnsafe === 'function') {
    return (sql, params) => $queryRawUnsafe.call(tx, sql, ...params);
  }
  if (typeof executeQuery === 'function') {
    return (sql, parameters) => executeQuery.call(tx, compiledQuery(sql, parameters));
  }
  if (typeof raw === 'function') {
    return (sql, params) => raw.call(tx, sql.replace(/\$\d+/g, '?'), params);
  }
  if (typeof query === 'function') {
    return (sql, params) => query.call(tx, sql, params) as Promise<unknown>;
  }
  if (typeof execute === 'function') {
    // Drizzle calls `getSQL` of a statement, and `toQuery` of the result.
    return (sql, params) =>
      execute.call(tx, { getSQL: () => ({ toQuery: () => ({ sql, params }) }) });
  }
  return undefined;
}

/** A statement in Kysely's form. */
function compiledQuery(sql: string, parameters: unknown[]): object {
  const query = { kind: 'RawNode', sqlFragments: [sql], parameters: [] };
  return { sql, parameters, query, queryId: { queryId: 'nestjs-locked' } };
}
