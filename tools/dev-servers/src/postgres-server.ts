import { execFile } from 'node:child_process';
import { chownSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { findPostgresPrograms } from './postgres-programs.js';
import { ServerProcess } from './server-process.js';
import { startOnFreePort } from './start-on-free-port.js';
import { createTemporaryFolder, type TemporaryFolder } from './temporary-folder.js';

export interface PostgresServerOptions {
  /** Further arguments of `postgres`. */
  args?: readonly string[];
  /** Settings as in postgresql.conf, for example `{ max_connections: '20' }`. */
  settings?: Readonly<Record<string, string>>;
}

const run = promisify(execFile);

const START_LIMIT_MS = 30_000;

/** PostgreSQL refuses to run as root; this is the user and group `nobody`, which owns nothing. */
const NOBODY = 65_534;

/** A PostgreSQL process of our own on 127.0.0.1, with the user and database `postgres` and no password. */
export class PostgresServer {
  private constructor(
    readonly port: number,
    private readonly process: ServerProcess,
    private readonly folder: TemporaryFolder,
  ) {}

  /**
   * Makes a new database cluster, starts a server on it and waits until it answers. Nothing is forced to disk
   * (`fsync=off`), so it is fast, and its data survives a killed server but not a power cut.
   *
   * @throws Error if there is no PostgreSQL for this machine, or if it does not start (with its last output).
   */
  static async start(options: PostgresServerOptions = {}): Promise<PostgresServer> {
    const userId = process.getuid?.() === 0 ? NOBODY : undefined;
    const folder = createTemporaryFolder('postgres-server-');
    try {
      if (userId !== undefined) chownSync(folder.path, userId, userId);
      const programs = findPostgresPrograms(userId, folder.path);
      const data = join(folder.path, 'data');
      await makeCluster(programs.initdb, data, userId);

      return await startOnFreePort(async (port) => {
        const server = new ServerProcess({
          program: programs.postgres,
          args: serverArguments(data, port, options),
          folder: folder.path,
          logFile: join(folder.path, 'server.log'),
          endSignal: 'SIGQUIT',
          userId,
        });
        await server.waitUntilReady(() => saysReady(data, server.pid), START_LIMIT_MS);
        return new PostgresServer(port, server, folder);
      });
    } catch (error) {
      await folder.remove();
      throw error;
    }
  }

  /** `postgres://postgres@127.0.0.1:<port>/postgres` */
  get url(): string {
    return `postgres://postgres@127.0.0.1:${this.port}/postgres`;
  }

  /** The process id of the postmaster. */
  get pid(): number {
    return this.process.pid;
  }

  /** Ends the server, cutting open connections, and removes its data; a second call does nothing. */
  async stop(): Promise<void> {
    await this.process.end();
    await this.folder.remove();
  }
}

async function makeCluster(
  initdb: string,
  data: string,
  userId: number | undefined,
): Promise<void> {
  const args = ['-D', data, '-U', 'postgres', '-A', 'trust', '-E', 'UTF8', '--locale=C', '-N'];
  await run(initdb, args, {
    cwd: '/',
    ...(userId !== undefined && { uid: userId, gid: userId }),
  });
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
  const lines = await readFile(join(data, 'postmaster.pid'), 'utf8').then(
    (text) => text.split('\n'),
    () => [],
  );
  return lines[0] === String(pid) && lines[7]?.trim() === 'ready';
}
