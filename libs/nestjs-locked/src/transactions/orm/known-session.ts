import type { DatabaseSession, SqlDialect, TransactionQuery } from '../sql/database-session.js';
import type { KnownDatabase } from '../sql/known-database.js';
import { sessionOf } from '../sql/session-of.js';
import { knownDialect } from './known-dialect.js';
import { knownQuery } from './known-query.js';
import { knownPgClient, type PgClient, stateOfClient } from './pg-client.js';

/** The application's options for an ORM that is not recognized. */
export interface GivenSession {
  readonly dialect?: SqlDialect | undefined;
  readonly query?: ((tx: never, sql: string, params: unknown[]) => Promise<unknown>) | undefined;
}

/**
 * @param tx the ORM's transaction object
 * @param database the knowledge from earlier transactions @param client returns its client if that was seen
 * @returns undefined if the ORM is unknown and no options are given
 */
export function knownSession(
  tx: object,
  { dialect = knownDialect(tx), query }: GivenSession,
  database: KnownDatabase,
  client: () => PgClient | undefined,
): DatabaseSession | undefined {
  const run: TransactionQuery | undefined =
    query === undefined ? knownQuery(tx) : (sql, params) => query(tx as never, sql, params);
  if (dialect === undefined || run === undefined) return undefined;
  const connection = stateOfClient(() => knownPgClient(tx) ?? client());
  return sessionOf(dialect, run, database, connection);
}
