import type { TransactionQuery } from '../sql/database-session.js';

/** The ways in which transactions of the known ORMs run a plain statement. */
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

/** @param tx what an ORM hands out for a transaction @returns undefined if the ORM is not a known one */
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
    // Drizzle asks a statement for its SQL, and that for its text.
    return (sql, params) =>
      execute.call(tx, { getSQL: () => ({ toQuery: () => ({ sql, params }) }) });
  }
  return undefined;
}

/** Kysely's form of a statement. */
function compiledQuery(sql: string, parameters: unknown[]): object {
  const query = { kind: 'RawNode', sqlFragments: [sql], parameters: [] };
  return { sql, parameters, query, queryId: { queryId: 'nestjs-locked' } };
}
