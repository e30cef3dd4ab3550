import { askRedis, orderRedis } from './ask-redis.js';
import { RedisSentinel } from './redis-sentinel.js';
import { RedisServer } from './redis-server.js';
import { until } from './until.js';

export interface RedisReplicaSetOptions {
  /** A server that has not answered the sentinels for this long is considered down. Default: 2,000. */
  readonly downAfterMs?: number;
  /** Further arguments of both servers. They override ours. */
  readonly args?: readonly string[];
}

const SENTINELS = 3;
const QUORUM = 2;

interface Named {
  readonly sentinel: RedisSentinel;
  readonly masterPort: number;
}

/** A master, its replica, and three sentinels that watch both, all on 127.0.0.1. */
export class RedisReplicaSet {
  /** The name under which the sentinels know the master. */
  readonly name = 'main';

  private constructor(
    /** Both servers; the first one was the master at the start. */
    readonly servers: readonly [RedisServer, RedisServer],
    /** The three sentinels, which tests can kill and restart. */
    readonly watchers: readonly RedisSentinel[],
  ) {}

  /**
   * Starts the five processes, and waits until the replica has its master's data and each sentinel knows all others.
   *
   * @throws Error if there is no redis-server, or one does not start
   */
  static async start({
    downAfterMs = 2_000,
    args: further = [],
  }: RedisReplicaSetOptions = {}): Promise<RedisReplicaSet> {
    const started: { stop(): Promise<void> }[] = [];
    const noteStart = async <S extends { stop(): Promise<void> }>(
      start: Promise<S>,
    ): Promise<S> => {
      const server = await start;
      started.push(server);
      return server;
    };
    try {
      const args = ['--repl-diskless-sync-delay', '0', ...further];
      const master = await noteStart(RedisServer.start({ args }));
      const following = ['--replicaof', '127.0.0.1', String(master.port)];
      const replica = await noteStart(RedisServer.start({ args: [...args, ...following] }));
      await until('the replica follows', async () =>
        (await askRedis(replica.port, 'INFO replication')).includes('master_link_status:up'),
      );
      const options = { name: 'main', masterPort: master.port, quorum: QUORUM, downAfterMs };
      const sentinels = await Promise.all(
        Array.from({ length: SENTINELS }, () => noteStart(RedisSentinel.start(options))),
      );
      const set = new RedisReplicaSet([master, replica], sentinels);
      // They find each other by messages that each of them sends every two seconds.
      await until('the sentinels know each other', () => set.#isComplete());
      return set;
    } catch (error) {
      await Promise.all(started.map((server) => server.stop()));
      throw error;
    }
  }

  /** Addresses of the sentinels, as clients take them. */
  get sentinels(): { readonly host: string; readonly port: number }[] {
    return this.watchers.map(({ port }) => ({ host: '127.0.0.1', port }));
  }

  /**
   * A planned failover, as before maintenance, while both servers are healthy. It resolves when every sentinel names
   * the new master. The old master is told to follow the new one about ten seconds later, and takes commands until
   * then.
   *
   * @returns the new master
   */
  async failOver(): Promise<RedisServer> {
    const before = await this.master();
    const [first] = await this.#named();
    await orderRedis((first as Named).sentinel.port, `SENTINEL FAILOVER ${this.name}`);
    return this.successorOf(before);
  }

  /** Waits until every sentinel that answers names another master than `before`, and returns that one. */
  async successorOf(before: RedisServer): Promise<RedisServer> {
    const after = this.servers.find((server) => server !== before) as RedisServer;
    await until('every sentinel names the new master', async () => {
      const named = await this.#named();
      return named.length > 0 && named.every(({ masterPort }) => masterPort === after.port);
    });
    return after;
  }

  /** The master that the first sentinel names which answers. */
  async master(): Promise<RedisServer> {
    const [first] = await this.#named();
    const master = this.servers.find(({ port }) => port === first?.masterPort);
    if (master === undefined) throw new Error('No sentinel answers');
    return master;
  }

  /** Ends everything; a second call does nothing. */
  async stop(): Promise<void> {
    await Promise.all([...this.watchers, ...this.servers].map((server) => server.stop()));
  }

  /** The sentinels that answer, and which master they name. */
  async #named(): Promise<Named[]> {
    const answers = await Promise.all(
      this.watchers.map(async (sentinel): Promise<Named[]> => {
        const question = `SENTINEL GET-MASTER-ADDR-BY-NAME ${this.name}`;
        const found = /\r\n(\d+)\r\n$/.exec(await askRedis(sentinel.port, question));
        return found === null ? [] : [{ sentinel, masterPort: Number(found[1]) }];
      }),
    );
    return answers.flat();
  }

  async #isComplete(): Promise<boolean> {
    const knows = async ({ port }: RedisSentinel): Promise<boolean> => {
      const answer = await askRedis(port, `SENTINEL MASTER ${this.name}`);
      const numberOf = (field: string): number =>
        Number(new RegExp(`\\r\\n${field}\\r\\n\\$\\d+\\r\\n(\\d+)`).exec(answer)?.[1]);
      return numberOf('num-slaves') === 1 && numberOf('num-other-sentinels') === SENTINELS - 1;
    };
    return (await Promise.all(this.watchers.map(knows))).every(Boolean);
  }
}
