/** Servers that may be used until `stop()`: one that a variable names, a container, or a process of our own. */
import { type ContainerOptions, startContainer } from './container-engine.js';
import { MariaDbServer } from './mysql-servers.js';
import { PostgresServer } from './postgres-server.js';
import { findMariaDbPrograms } from './programs.js';
import { RedisServer } from './redis-server.js';

export interface ProvidedServer<Source extends string> {
  readonly url: string;
  /** Where it came from. A server that a variable names belongs to the caller, and may hold other data. */
  readonly source: Source;
  /** Stops what was started. A server that a variable names is left as it is. */
  stop(): Promise<void>;
}

export type ProvidedRedis = ProvidedServer<'REDIS_URL' | 'container' | 'binary'>;
export type ProvidedPostgres = ProvidedServer<
  'DATABASE_URL' | 'POSTGRES_URL' | 'container' | 'binary'
>;
export type ProvidedMariaDb = ProvidedServer<'MARIADB_URL' | 'MYSQL_URL' | 'binary'>;

/**
 * Provides a Redis server: the one that `REDIS_URL` names, otherwise a container, otherwise a redis-server or
 * valkey-server process. If the program is missing, it is installed with apt when this is root on Debian or Ubuntu.
 *
 * @throws Error that names the ways to get one if there is none.
 */
export async function provideRedis(): Promise<ProvidedRedis> {
  const container = {
    image: 'redis:8-alpine',
    port: 6379,
    url: 'redis://<address>',
    command: ['redis-server', '--save', '', '--appendonly', 'no'],
    readyLog: { text: 'Ready to accept connections', times: 1 },
  };
  return given('REDIS_URL') ?? (await contained(container)) ?? own(await RedisServer.start());
}

/**
 * Provides a PostgreSQL server: the one that `DATABASE_URL` or `POSTGRES_URL` names, otherwise a container, otherwise
 * the PostgreSQL that npm installed with this repository.
 *
 * @throws Error that names the ways to get one if there is none.
 */
export async function providePostgres(): Promise<ProvidedPostgres> {
  const container = {
    image: 'postgres:18-alpine',
    port: 5432,
    url: 'postgres://postgres@<address>/postgres',
    environment: { POSTGRES_HOST_AUTH_METHOD: 'trust' },
    // The image first starts a server for its set-up scripts, and then the real one.
    readyLog: { text: 'database system is ready to accept connections', times: 2 },
  };
  return (
    given('DATABASE_URL', 'POSTGRES_URL') ??
    (await contained(container)) ??
    own(await PostgresServer.start())
  );
}

/** Whether `provideMariaDb` finds a server without installing anything. Nothing is started to find out. */
export function hasMariaDb(): boolean {
  return given('MARIADB_URL', 'MYSQL_URL') !== undefined || findMariaDbPrograms() !== undefined;
}

/**
 * Provides a MariaDB server: the one that `MARIADB_URL` or `MYSQL_URL` names, otherwise a mariadbd process. If the
 * program is missing, it is installed with apt when this is root on Debian or Ubuntu.
 *
 * @throws Error that names the ways to get one if there is none.
 */
export async function provideMariaDb(): Promise<ProvidedMariaDb> {
  return given('MARIADB_URL', 'MYSQL_URL') ?? own(await MariaDbServer.start());
}

function given<Name extends string>(...variables: Name[]): ProvidedServer<Name> | undefined {
  const source = variables.find((name) => process.env[name]);
  if (source === undefined) return undefined;
  return { url: process.env[source] ?? '', source, stop: () => Promise.resolve() };
}

async function contained(
  options: ContainerOptions & { readonly url: string },
): Promise<ProvidedServer<'container'> | undefined> {
  const container = await startContainer(options);
  if (container === undefined) return undefined;
  const url = options.url.replace('<address>', `${container.host}:${container.port}`);
  return { url, source: 'container', stop: () => container.stop() };
}

function own(server: { readonly url: string; stop(): Promise<void> }): ProvidedServer<'binary'> {
  return { url: server.url, source: 'binary', stop: () => server.stop() };
}
