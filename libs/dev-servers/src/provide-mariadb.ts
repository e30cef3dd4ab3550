import { findMariaDbPrograms } from './mariadb-programs.js';
import { MariaDbServer } from './mariadb-server.js';

/** A MariaDB that may be used until `stop()`. */
export interface ProvidedMariaDb {
  readonly url: string;
  /** Where it came from. A server of the two variables is the caller's: it may hold other data. */
  readonly source: 'MARIADB_URL' | 'MYSQL_URL' | 'binary';
  /** Stops what was started; a server of the two variables is left as it is. */
  stop(): Promise<void>;
}

const VARIABLES = ['MARIADB_URL', 'MYSQL_URL'] as const;

/** Whether `provideMariaDb` has one without installing anything. Nothing is started to find out. */
export function hasMariaDb(): boolean {
  return VARIABLES.some((name) => process.env[name]) || findMariaDbPrograms() !== undefined;
}

/**
 * Gives a MariaDB server: the one of `MARIADB_URL` or `MYSQL_URL`, else a mariadbd process, which
 * root on Debian and Ubuntu gets from apt when it is missing.
 *
 * @throws Error naming the ways to get one when there is none.
 */
export async function provideMariaDb(): Promise<ProvidedMariaDb> {
  for (const source of VARIABLES) {
    const url = process.env[source];
    if (url) return { url, source, stop: () => Promise.resolve() };
  }
  const server = await MariaDbServer.start();
  return { url: server.url, source: 'binary', stop: () => server.stop() };
}
