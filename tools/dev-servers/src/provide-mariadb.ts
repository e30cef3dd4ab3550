import { findMariaDbPrograms } from './mariadb-programs.js';
import { MariaDbServer } from './mariadb-server.js';

/** A MariaDB that may be used until `stop()`. */
export interface ProvidedMariaDb {
  readonly url: string;
  /**
   * Where it came from. A server that one of the two variables names belongs to the caller, and may hold other data.
   */
  readonly source: 'MARIADB_URL' | 'MYSQL_URL' | 'binary';
  /** Stops what was started. A server that one of the two variables names is left as it is. */
  stop(): Promise<void>;
}

const VARIABLES = ['MARIADB_URL', 'MYSQL_URL'] as const;

/** Whether `provideMariaDb` finds a server without installing anything. Nothing is started to find out. */
export function hasMariaDb(): boolean {
  return VARIABLES.some((name) => process.env[name]) || findMariaDbPrograms() !== undefined;
}

/**
 * Provides a MariaDB server: the one that `MARIADB_URL` or `MYSQL_URL` names, otherwise a mariadbd process. If the
 * program is missing, it is installed with apt when this is root on Debian or Ubuntu.
 *
 * @throws Error that names the ways to get one if there is none.
 */
export async function provideMariaDb(): Promise<ProvidedMariaDb> {
  for (const source of VARIABLES) {
    const url = process.env[source];
    if (url) return { url, source, stop: () => Promise.resolve() };
  }
  const server = await MariaDbServer.start();
  return { url: server.url, source: 'binary', stop: () => server.stop() };
}
