import { readdir, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { askRedis } from './ask-redis.js';
import { findRedisProgram } from './redis-program.js';
import { ServerProcess } from './server-process.js';
import { startOnFreePort } from './start-on-free-port.js';
import { createTemporaryFolder, type TemporaryFolder } from './temporary-folder.js';

export interface RedisServerOptions {
  /** Further arguments of redis-server, for example `['--appendonly', 'yes']`. They override ours. */
  args?: readonly string[];
  /** The port on 127.0.0.1. Default: a free one. */
  port?: number;
  /** The data folder. It still belongs to the caller and is never emptied. Default: a temporary one. */
  dir?: string;
  /** Files of the temporary folder that `restart()` leaves there. Default: none. */
  keepFiles?: readonly string[];
}

const START_LIMIT_MS = 10_000;

/** A redis-server process of our own on 127.0.0.1, which tests can pause, kill and restart. */
export class RedisServer {
  private constructor(
    readonly port: number,
    private process: ServerProcess,
    private readonly launch: () => ServerProcess,
    private readonly temporary: TemporaryFolder,
    private readonly keptFiles: readonly string[],
  ) {}

  /**
   * Starts a server that keeps nothing on disk, and waits until it answers.
   *
   * @throws Error if there is no redis-server, or if it does not start (with its last output).
   */
  static async start(options: RedisServerOptions = {}): Promise<RedisServer> {
    const program = await findRedisProgram();
    const temporary = createTemporaryFolder('redis-server-');
    const startOn = async (port: number): Promise<RedisServer> => {
      const launch = (): ServerProcess => launchRedis(program, port, temporary.path, options);
      const server = launch();
      await waitUntilReady(server, port);
      return new RedisServer(port, server, launch, temporary, options.keepFiles ?? []);
    };
    try {
      return await (options.port === undefined ? startOnFreePort(startOn) : startOn(options.port));
    } catch (error) {
      await temporary.remove();
      throw error;
    }
  }

  /** `redis://127.0.0.1:<port>` */
  get url(): string {
    return `redis://127.0.0.1:${this.port}`;
  }

  /** The process id of the current redis-server, which is another one after `restart()`. */
  get pid(): number {
    return this.process.pid;
  }

  /** Freezes the server (SIGSTOP): connections stay open, but nothing is answered. */
  pause(): void {
    this.process.signal('SIGSTOP');
  }

  /** Ends a pause (SIGCONT). */
  resume(): void {
    this.process.signal('SIGCONT');
  }

  /** Kills the server without warning (SIGKILL) and waits until it is gone; `restart()` may follow. */
  async kill(): Promise<void> {
    await this.process.end();
  }

  /**
   * Kills the server if it runs, and starts it on the same port, empty. If you gave it a `dir`, it finds there what its
   * persistence arguments have saved.
   *
   * @throws Error if it does not start, for example because the port was taken in the meantime.
   */
  async restart(): Promise<void> {
    await this.process.end();
    await empty(this.temporary.path, this.keptFiles);
    this.process = this.launch();
    await waitUntilReady(this.process, this.port);
  }

  /** Ends the server for good and removes its temporary folder; a second call does nothing. */
  async stop(): Promise<void> {
    await this.process.end();
    await this.temporary.remove();
  }
}

function launchRedis(
  program: string,
  port: number,
  folder: string,
  { args = [], dir = folder }: RedisServerOptions,
): ServerProcess {
  return new ServerProcess({
    program,
    args: [
      ...['--port', String(port), '--bind', '127.0.0.1', '--dir', dir],
      ...['--save', '', '--appendonly', 'no', '--daemonize', 'no'],
      ...args,
    ],
    folder,
    logFile: join(folder, 'server.log'),
    endSignal: 'SIGKILL',
  });
}

/** Whether the process we started is ready, and not another server that was quicker to take the port. */
async function waitUntilReady(server: ServerProcess, port: number): Promise<void> {
  const ownLine = `\nprocess_id:${server.pid}\r`;
  await server.waitUntilReady(
    async () => (await askRedis(port, 'INFO server')).includes(ownLine),
    START_LIMIT_MS,
  );
}

async function empty(folder: string, keptFiles: readonly string[]): Promise<void> {
  for (const name of await readdir(folder)) {
    if (keptFiles.includes(name)) continue;
    await rm(join(folder, name), { recursive: true, force: true });
  }
}
