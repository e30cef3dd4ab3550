import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { makeMariaDbData } from './mariadb-data.js';
import { findOrInstallMariaDb } from './mariadb-programs.js';
import { ServerProcess } from './server-process.js';
import { startOnFreePort } from './start-on-free-port.js';
import { createTemporaryFolder, type TemporaryFolder } from './temporary-folder.js';

export interface MariaDbServerOptions {
  /** Further arguments of `mariadbd`, for example `['--max-connections=20']`. They override ours. */
  args?: readonly string[];
}

const START_LIMIT_MS = 30_000;

/** A MariaDB process of our own on 127.0.0.1, with the user `root` and no password. */
export class MariaDbServer {
  private constructor(
    readonly port: number,
    private readonly process: ServerProcess,
    private readonly folder: TemporaryFolder,
  ) {}

  /**
   * Makes new data, starts a server on it and waits until it answers. The server is meant for tests: it forces little
   * to disk and takes little memory.
   *
   * @throws Error if there is no MariaDB and none could be installed, or if it does not start (with its last output).
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
          // Its data is not needed again.
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

  /** `mysql://root@127.0.0.1:<port>`: it names no database, because there is none yet. */
  get url(): string {
    return `mysql://root@127.0.0.1:${this.port}`;
  }

  /** The process id of mariadbd. */
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

/**
 * The log belongs to this server alone, so another server that was quicker to take the port cannot have written this.
 */
async function saysReady(logFile: string): Promise<boolean> {
  return (await readFile(logFile, 'utf8')).includes('ready for connections');
}
