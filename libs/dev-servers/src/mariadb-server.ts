import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { makeMariaDbData } from './mariadb-data.js';
import { findOrInstallMariaDb } from './mariadb-programs.js';
import { ServerProcess } from './server-process.js';
import { startOnFreePort } from './start-on-free-port.js';
import { createTemporaryFolder, type TemporaryFolder } from './temporary-folder.js';

export interface MariaDbServerOptions {
  /** Further arguments of `mariadbd`, for example `['--max-connections=20']`; they win over ours. */
  args?: readonly string[];
}

const START_LIMIT_MS = 30_000;

/** A MariaDB process of our own on 127.0.0.1, user `root`, no password. */
export class MariaDbServer {
  private constructor(
    readonly port: number,
    private readonly process: ServerProcess,
    private readonly folder: TemporaryFolder,
  ) {}

  /**
   * Makes new data, starts a server on it and waits until it answers. Little is forced to disk and
   * little memory taken: it is for tests.
   *
   * @throws Error when there is no MariaDB and none could be installed, or it does not start (its
   * last words included).
   */
  static async start({ args = [] }: MariaDbServerOptions = {}): Promise<MariaDbServer> {
    const programs = await findOrInstallMariaDb();
    const folder = createTemporaryFolder('mariadb-server-');
    try {
      const data = await makeMariaDbData(programs.installDb, folder.path);

      return await startOnFreePort(async (port, attempt) => {
        const logFile = join(folder.path, `server-${attempt}.log`);
        const server = new ServerProcess({
          program: programs.server,
          args: [...serverArguments(folder.path, data, port), ...args],
          folder: folder.path,
          logFile,
          // Nothing of its data is needed again.
          endSignal: 'SIGKILL',
        });
        await server.waitUntilReady(() => saysReady(logFile), START_LIMIT_MS);
        return new MariaDbServer(port, server, folder);
      });
    } catch (error) {
      await folder.remove();
      throw error;
    }
  }

  /** `mysql://root@127.0.0.1:<port>`: it names no database, since there is none yet. */
  get url(): string {
    return `mysql://root@127.0.0.1:${this.port}`;
  }

  /** Process id of mariadbd. */
  get pid(): number {
    return this.process.pid;
  }

  /** Kills the server, cutting open connections, and removes its data; a second call does nothing. */
  async stop(): Promise<void> {
    await this.process.end();
    await this.folder.remove();
  }
}

function serverArguments(folder: string, data: string, port: number): string[] {
  return [
    ...['--no-defaults', `--datadir=${data}`, `--tmpdir=${folder}`],
    ...[`--socket=${join(folder, 'mariadb.sock')}`, `--pid-file=${join(folder, 'mariadb.pid')}`],
    ...['--skip-networking=0', '--bind-address=127.0.0.1', `--port=${port}`, '--skip-name-resolve'],
    ...['--character-set-server=utf8mb4', '--innodb-buffer-pool-size=16M', '--key-buffer-size=1M'],
    ...['--innodb-flush-log-at-trx-commit=0', '--innodb-use-native-aio=0'],
    // mariadbd refuses to run as root unless it is told to.
    ...(process.getuid?.() === 0 ? ['--user=root'] : []),
  ];
}

/** The log is its own: no other server that was quicker to take the port can have written this. */
async function saysReady(logFile: string): Promise<boolean> {
  return (await readFile(logFile, 'utf8')).includes('ready for connections');
}
