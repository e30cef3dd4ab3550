import { Redis } from 'ioredis';

/** The demo's own connection to the Redis that the processes share. */
export class DemoRedis {
  private constructor(
    private readonly redis: Redis,
    /** The names of the commands that Redis does not allow in scripts. */
    private readonly clientOnly: ReadonlySet<string>,
  ) {}

  static async connect(url: string): Promise<DemoRedis> {
    const redis = new Redis(url, { maxRetriesPerRequest: 1 });
    redis.on('error', () => undefined); // the command that failed reports it
    const commands = (await redis.call('COMMAND')) as [
      name: string,
      arity: number,
      flags: string[],
    ][];
    const clientOnly = commands.filter(([, , flags]) => flags.includes('noscript'));
    return new DemoRedis(redis, new Set(clientOnly.map(([name]) => name)));
  }

  /**
   * How many commands clients have sent, by Redis' own statistics. These also count the commands inside scripts, so
   * only commands that Redis does not allow in scripts are added up (EVALSHA, EVAL, SUBSCRIBE and the like). The locks
   * send no others.
   */
  async clientCommands(): Promise<number> {
    const lines = (await this.redis.info('commandstats')).matchAll(
      /^cmdstat_(\w+).*?:calls=(\d+)/gm,
    );
    let count = 0;
    for (const [, name = '', calls] of lines) {
      if (this.clientOnly.has(name)) count += Number(calls);
    }
    return count;
  }

  /** Removes what locks keep for a day after their last use: the fencing tokens they gave out. */
  async removeLocks(productPrefix: string): Promise<void> {
    const keys = this.redis.scanStream({ match: `lock:{stock:${productPrefix}*`, count: 1_000 });
    for await (const found of keys as AsyncIterable<string[]>) {
      if (found.length > 0) await this.redis.unlink(found);
    }
  }

  close(): void {
    this.redis.disconnect();
  }
}
