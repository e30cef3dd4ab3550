import { spawnSync } from 'node:child_process';
import { installWithApt, mayInstallWithApt } from './apt.js';
import { findProgram } from './find-program.js';

/** The paths of the two programs of MariaDB that are needed. */
export interface MariaDbPrograms {
  readonly installDb: string;
  readonly server: string;
}

const waysOut =
  'Set MARIADB_URL to a server that may be used, or install MariaDB ' +
  '(Debian and Ubuntu: apt-get install mariadb-server, macOS: brew install mariadb).';

/** MariaDB on this machine, or undefined. Nothing is installed or started. MySQL does not count. */
export function findMariaDbPrograms(): MariaDbPrograms | undefined {
  const server = findProgram('mariadbd') ?? mysqldOfMariaDb();
  const installDb = findProgram('mariadb-install-db', 'mysql_install_db');
  return server && installDb ? { server, installDb } : undefined;
}

/**
 * MariaDB on this machine. If there is none, it is installed with apt when this is root on Debian or Ubuntu, after one
 * line on standard error.
 *
 * @throws Error that names the ways to get one, if there is none and none could be installed.
 */
export async function findOrInstallMariaDb(): Promise<MariaDbPrograms> {
  const found = findMariaDbPrograms();
  if (found) return found;

  if (!mayInstallWithApt()) throw new Error(`No mariadbd is on PATH or in /usr/sbin. ${waysOut}`);
  try {
    await installWithApt({ package: 'mariadb-server', program: 'mariadbd', service: 'mariadb' });
  } catch (error) {
    throw new Error(`apt-get could not install mariadb-server. ${waysOut}`, { cause: error });
  }
  const installed = findMariaDbPrograms();
  if (installed) return installed;
  throw new Error(
    `apt-get installed mariadb-server, but mariadbd or mariadb-install-db is missing. ${waysOut}`,
  );
}

/** Before 10.5 the server had only MySQL's name. */
function mysqldOfMariaDb(): string | undefined {
  const mysqld = findProgram('mysqld');
  if (mysqld === undefined) return undefined;
  const { stdout } = spawnSync(mysqld, ['--no-defaults', '--version'], { encoding: 'utf8' });
  return stdout?.includes('MariaDB') ? mysqld : undefined;
}
