import { readdir, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { askRedis } from './ask-redis.js';
import { findRedisProgram } from './programs.js';
import { ServerClock } from './server-clock.js';
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
  /** Whether its wall clock can be set, by `stepClock`. It needs libfaketime. */
  hasOwnClock?: boolean;
}

/** What the program is given, and what of its folder it finds again when it is restarted. */
export interface RedisLaunch {
  readonly port?: number | undefined;
  readonly args: (port: number, folder: string) => readonly string[];
  readonly keeps: (file: string) => boolean;
  readonly hasOwnClock?: boolean;
}

/** The part of the folder that belongs to the clock. */
const CLOCK = 'clock';
const START_LIMIT_MS = 10_000;

/** A redis-server process of our own on 127.0.0.1, which tests can pause, kill and restart. */
export class RedisServer {
  private constructor(
    readonly port: number,
    private process: ServerProcess,
    private readonly launch: () => Promise<ServerProcess>,
    private readonly temporary: TemporaryFolder,
    private readonly keeps: (file: string) => boolean,
    private readonly clock: ServerClock | undefined,
  ) {}

  /**
   * Starts a server that keeps nothing on disk, and waits until it answers.
   *
   * @throws Error if there is no redis-server, if it does not start (with its last output), or if there is no
   *   libfaketime for a clock of its own.
   */
  static start({ args = [], port, dir, keepFiles = [], hasOwnClock }: RedisServerOptions = {}) {
    return RedisServer.launch({
      port,
      hasOwnClock: hasOwnClock === true,
      args: (own, folder) => [
        ...['--port', String(own), '--bind', '127.0.0.1', '--dir', dir ?? folder],
        ...['--save', '', '--appendonly', 'no', '--daemonize', 'no'],
        ...args,
      ],
      keeps: (file) => keepFiles.includes(file),
    });
  }

  /** Starts the program in any of its ways. */
  static async launch({ port, args, keeps, hasOwnClock }: RedisLaunch): Promise<RedisServer> {
    const found = await findRedisProgram();
    const temporary = createTemporaryFolder('redis-server-');
    const folder = temporary.path;
    const logFile = join(folder, 'server.log');
    try {
      const clock =
        hasOwnClock === true ? await ServerClock.create(join(folder, CLOCK), found) : undefined;
      const program = clock?.program ?? found;
      const startOn = async (own: number): Promise<RedisServer> => {
        const all = { program, args: args(own, folder), folder, logFile };
        const launch = () => readyProcess({ ...all, endSignal: 'SIGKILL' }, own);
        return new RedisServer(own, await launch(), launch, temporary, keeps, clock);
      };
      return await (port === undefined ? startOnFreePort(startOn) : startOn(port));
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

  /**
   * Sets its wall clock this many seconds forward, or back. A restart does not set it again.
   *
   * @throws Error if it was started without a clock of its own
   */
  async stepClock(seconds: number): Promise<void> {
    if (this.clock === undefined) throw new Error('Start the server with `hasOwnClock: true`');
    await this.clock.step(seconds);
  }

  /** Kills the server without warning (SIGKILL) and waits until it is gone; `restart()` may follow. */
  async kill(): Promise<void> {
    await this.process.end();
  }

  /**
   * Kills the server if it runs, and starts it on the same port, empty. If you gave it a `dir`, it finds there what its
   * persistence arguments have saved; a sentinel knows what it has found out.
   *
   * @throws Error if it does not start, for example because the port was taken in the meantime.
   */
  async restart(): Promise<void> {
    await this.process.end();
    for (const name of await readdir(this.temporary.path)) {
      if (name === CLOCK || this.keeps(name)) continue;
      await rm(join(this.temporary.path, name), { recursive: true, force: true });
    }
    this.process = await this.launch();
  }

  /** Ends the server for good and removes its temporary folder; a second call does nothing. */
  async stop(): Promise<void> {
    await this.process.end();
    await this.temporary.remove();
  }
}

/** Waits for the process that is started, and not for another server that was quicker to take the port. */
async function readyProcess(
  options: ConstructorParameters<typeof ServerProcess>[0],
  port: number,
): Promise<ServerProcess> {
  const server = new ServerProcess(options);
  const ownLine = `\nprocess_id:${server.pid}\r`;
  await server.waitUntilReady(
    async () => (await askRedis(port, 'INFO server')).includes(ownLine),
    START_LIMIT_MS,
  );
  return server;
}
