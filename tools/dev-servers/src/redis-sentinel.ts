import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { askRedis } from './ask-redis.js';
import { findRedisProgram } from './redis-program.js';
import { ServerProcess } from './server-process.js';
import { startOnFreePort } from './start-on-free-port.js';
import { createTemporaryFolder, type TemporaryFolder } from './temporary-folder.js';

export interface RedisSentinelOptions {
  /** The name of the master, by which clients ask for it. */
  readonly name: string;
  readonly masterPort: number;
  /** How many sentinels must agree that the master is down. */
  readonly quorum: number;
  /** A server that has not answered for this long is considered down. */
  readonly downAfterMs: number;
}

const START_LIMIT_MS = 10_000;

/** A sentinel on 127.0.0.1. Every redis-server can be run as one. */
export class RedisSentinel {
  private constructor(
    readonly port: number,
    private process: ServerProcess,
    private readonly launch: () => Promise<ServerProcess>,
    private readonly temporary: TemporaryFolder,
  ) {}

  /** @throws Error if there is no redis-server, or it does not start */
  static async start(options: RedisSentinelOptions): Promise<RedisSentinel> {
    const program = await findRedisProgram();
    const temporary = createTemporaryFolder('redis-sentinel-');
    const folder = temporary.path;
    const startOn = async (port: number): Promise<RedisSentinel> => {
      const file = join(folder, `sentinel-${port}.conf`);
      writeFileSync(file, configuration(port, folder, options));
      const launch = async (): Promise<ServerProcess> => {
        const process = new ServerProcess({
          program,
          args: [file, '--sentinel'],
          folder,
          logFile: join(folder, 'sentinel.log'),
          endSignal: 'SIGKILL',
        });
        await process.waitUntilReady(
          async () => (await askRedis(port, 'PING')).includes('PONG'),
          START_LIMIT_MS,
        );
        return process;
      };
      return new RedisSentinel(port, await launch(), launch, temporary);
    };
    try {
      return await startOnFreePort(startOn);
    } catch (error) {
      await temporary.remove();
      throw error;
    }
  }

  /** Kills the sentinel without warning (SIGKILL) and waits until it is gone; `restart()` may follow. */
  async kill(): Promise<void> {
    await this.process.end();
  }

  /** Freezes the process: it accepts connections and answers nothing (SIGSTOP). */
  pause(): void {
    this.process.signal('SIGSTOP');
  }

  /** Ends a pause (SIGCONT). */
  resume(): void {
    this.process.signal('SIGCONT');
  }

  /**
   * Kills the sentinel if it runs, and starts it on the same port, with what it has found out.
   *
   * @throws Error if it does not start, for example because the port was taken in the meantime.
   */
  async restart(): Promise<void> {
    await this.process.end();
    this.process = await this.launch();
  }

  /** Ends the sentinel for good and removes its folder; a second call does nothing. */
  async stop(): Promise<void> {
    await this.process.end();
    await this.temporary.remove();
  }
}

/** The sentinel's configuration, a file in which it also keeps what it finds out. */
function configuration(port: number, folder: string, options: RedisSentinelOptions): string {
  const { name, masterPort, quorum, downAfterMs } = options;
  return [
    `port ${port}`,
    'bind 127.0.0.1',
    `dir ${folder}`,
    `sentinel monitor ${name} 127.0.0.1 ${masterPort} ${quorum}`,
    `sentinel down-after-milliseconds ${name} ${downAfterMs}`,
    `sentinel failover-timeout ${name} 10000`,
    '',
  ].join('\n');
}
