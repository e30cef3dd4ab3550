import type { DatabaseSession, TransactionQuery } from '../sql/database-session.js';
import { sessionOf, type SqlDialect } from '../sql/session-of.js';
import { knownDialect } from './known-dialect.js';
import { knownQuery } from './known-query.js';

/** What the application gives where it cannot be found out. */
export interface GivenSession {
  readonly dialect?: SqlDialect | undefined;
  readonly query?: ((tx: never, sql: string, params: unknown[]) => Promise<unknown>) | undefined;
}

/** @param tx what an ORM hands out for a transaction @returns undefined if the ORM is not known and nothing is given */
export function knownSession(
  tx: object,
  { dialect = knownDialect(tx), query }: GivenSession,
): DatabaseSession | undefined {
  const run: TransactionQuery | undefined =
    query === undefined ? knownQuery(tx) : (sql, params) => query(tx as never, sql, params);
  return dialect === undefined || run === undefined ? undefined : sessionOf(dialect, run);
}
