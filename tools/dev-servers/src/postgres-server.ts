import { chownSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { DatabaseServer, startDatabase } from './database-server.js';
import { findPostgresPrograms } from './postgres-programs.js';
import { ServerProcess } from './server-process.js';

export interface PostgresServerOptions {
  /** Further arguments of `postgres`. */
  args?: readonly string[];
  /** Settings as in postgresql.conf, for example `{ max_connections: '20' }`. */
  settings?: Readonly<Record<string, string>>;
}

/** PostgreSQL refuses to run as root; this is the user and group `nobody`, which owns nothing. */
const NOBODY = 65_534;

/** A PostgreSQL process of our own on 127.0.0.1, with the user and database `postgres` and no password. */
export class PostgresServer extends DatabaseServer {
  /**
   * Makes a new database cluster, starts a server on it and waits until it answers. Nothing is forced to disk
   * (`fsync=off`) or vacuumed, so it is fast, and its data survives a killed server but not a power cut.
   *
   * @throws Error if there is no PostgreSQL for this machine, or if it does not start (with its last output).
   */
  static start(options: PostgresServerOptions = {}): Promise<PostgresServer> {
    const userId = process.getuid?.() === 0 ? NOBODY : undefined;
    return startDatabase(PostgresServer, async (folder) => {
      if (userId !== undefined) chownSync(folder, userId, userId);
      const { initdb, postgres } = findPostgresPrograms(userId, folder);
      const data = join(folder, 'data');
      await new ServerProcess({
        program: initdb,
        args: ['-D', data, '-U', 'postgres', '-A', 'trust', '-E', 'UTF8', '--locale=C', '-N'],
        folder,
        logFile: join(folder, 'initdb.log'),
        endSignal: 'SIGKILL',
        userId,
      }).succeeds();
      return (port) => ({
        program: postgres,
        args: serverArguments(data, port, options),
        endSignal: 'SIGQUIT',
        userId,
        isReady: (pid) => saysReady(data, pid),
      });
    });
  }

  /** `postgres://postgres@127.0.0.1:<port>/postgres` */
  get url(): string {
    return `postgres://postgres@127.0.0.1:${this.port}/postgres`;
  }
}

function serverArguments(
  data: string,
  port: number,
  { args = [], settings = {} }: PostgresServerOptions,
): string[] {
  const all: Record<string, string> = {
    listen_addresses: '127.0.0.1',
    unix_socket_directories: '',
    fsync: 'off',
    full_page_writes: 'off',
    autovacuum: 'off', // with many databases, it would start a process every second
    ...settings,
  };
  return [
    ...['-D', data, '-p', String(port)],
    ...Object.entries(all).flatMap(([name, value]) => ['-c', `${name}=${value}`]),
    ...args,
  ];
}

/** The postmaster writes its process id and its state into its own data folder. */
async function saysReady(data: string, pid: number): Promise<boolean> {
  const text = await readFile(join(data, 'postmaster.pid'), 'utf8').catch(() => '');
  const lines = text.split('\n');
  return lines[0] === String(pid) && lines[7]?.trim() === 'ready';
}
