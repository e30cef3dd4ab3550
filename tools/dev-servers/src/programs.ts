/** The programs that are started, which are installed where that can be done. */
import { spawnSync } from 'node:child_process';
import { findOrInstall } from './apt.js';
import { findProgram } from './find-program.js';

/**
 * The path of `redis-server` or `valkey-server`. If there is none, it is installed with apt when this is root on Debian
 * or Ubuntu, after one line on standard error.
 *
 * @throws Error that names the ways to get a Redis, if there is no program and none could be installed.
 */
export function findRedisProgram(): Promise<string> {
  return findOrInstall({
    find: () => findProgram('redis-server', 'valkey-server'),
    package: 'redis-server',
    program: 'redis-server',
    service: 'redis-server',
    missing: 'No redis-server or valkey-server is on PATH',
    waysOut:
      'Set REDIS_URL to a server that may be used, start a Docker engine, or install redis-server ' +
      '(Debian and Ubuntu: apt-get install redis-server, macOS: brew install redis).',
  });
}

/** The paths of the two programs of MariaDB that are needed. */
export interface MariaDbPrograms {
  readonly installDb: string;
  readonly server: string;
}

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
export function findOrInstallMariaDb(): Promise<MariaDbPrograms> {
  return findOrInstall({
    find: findMariaDbPrograms,
    package: 'mariadb-server',
    program: 'mariadbd',
    service: 'mariadb',
    missing: 'No mariadbd or no mariadb-install-db is on PATH or in /usr/sbin',
    waysOut:
      'Set MARIADB_URL to a server that may be used, or install MariaDB ' +
      '(Debian and Ubuntu: apt-get install mariadb-server, macOS: brew install mariadb).',
  });
}

/** Before 10.5 the server had only MySQL's name. */
function mysqldOfMariaDb(): string | undefined {
  const mysqld = findProgram('mysqld');
  if (mysqld === undefined) return undefined;
  const { stdout } = spawnSync(mysqld, ['--no-defaults', '--version'], { encoding: 'utf8' });
  return stdout?.includes('MariaDB') ? mysqld : undefined;
}

/** Chromium on this machine, or undefined. Nothing is installed. */
export function findChromium(): string | undefined {
  return findProgram('chromium', 'chromium-browser', 'google-chrome');
}

/**
 * Chromium on this machine. If there is none, it is installed with apt when this is root on Debian, after one line on
 * standard error.
 *
 * @throws Error that names the way to get one, if there is none and none could be installed.
 */
export function findOrInstallChromium(): Promise<string> {
  return findOrInstall({
    find: findChromium,
    package: 'chromium',
    program: 'chromium',
    missing: 'No chromium is on PATH',
    waysOut: 'Install Chromium (Debian: apt-get install chromium).',
  });
}
