import { askRedis, orderRedis } from './ask-redis.js';
import { type RedisSentinel, startSentinel } from './redis-sentinel.js';
import { RedisServer } from './redis-server.js';
import { startAll } from './start-all.js';
import { until } from './until.js';

export interface RedisReplicaSetOptions {
  /** Default: 1. */
  readonly replicas?: number;
  /** A server that has not answered the sentinels for this long is considered down. Default: 2,000. */
  readonly downAfterMs?: number;
  /** Further arguments of all servers. They override ours. */
  readonly args?: readonly string[];
}

const SENTINELS = 3;
const QUORUM = 2;

type Servers = readonly [RedisServer, RedisServer, ...RedisServer[]];

interface Named {
  readonly sentinel: RedisSentinel;
  readonly masterPort: number;
}

/** A master, its replicas, and three sentinels that watch them, all on 127.0.0.1. */
export class RedisReplicaSet {
  /** The name under which the sentinels know the master. */
  readonly name = 'main';

  private constructor(
    /** All servers; the first one was the master at the start. */
    readonly servers: Servers,
    /** The three sentinels, which tests can kill and restart. */
    readonly watchers: readonly RedisSentinel[],
  ) {}

  /**
   * Starts all processes, and waits until each replica has its master's data and each sentinel knows all others.
   *
   * @throws Error if there is no redis-server, or one does not start
   */
  static async start({
    replicas: count = 1,
    downAfterMs = 2_000,
    args: further = [],
  }: RedisReplicaSetOptions = {}): Promise<RedisReplicaSet> {
    const started: { stop(): Promise<void> }[] = [];
    try {
      const args = ['--repl-diskless-sync-delay', '0', ...further];
      const master = await RedisServer.start({ args });
      started.push(master);
      const following = [...args, '--replicaof', '127.0.0.1', String(master.port)];
      const replicas = await startAll(
        Array.from({ length: count }, () => RedisServer.start({ args: following })),
      );
      started.push(...replicas);
      await until('the replicas follow', async () => {
        const answers = replicas.map(({ port }) => askRedis(port, 'INFO replication'));
        return (await Promise.all(answers)).every((answer) =>
          answer.includes('master_link_status:up'),
        );
      });
      const options = { name: 'main', masterPort: master.port, quorum: QUORUM, downAfterMs };
      const sentinels = await startAll(
        Array.from({ length: SENTINELS }, () => startSentinel(options)),
      );
      started.push(...sentinels);
      const servers = [master, ...replicas] as readonly RedisServer[] as Servers;
      const set = new RedisReplicaSet(servers, sentinels);
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
   * A sentinel gives a planned failover up after ten seconds if another one, which still thinks of the failover before,
   * has made the new master a replica again. Then it is ordered once more.
   *
   * @returns the new master
   */
  async failOver(): Promise<RedisServer> {
    const before = await this.master();
    await until('a sentinel has made another server the master', async () => {
      if (await this.isFailingOver()) return false;
      const [first] = await this.#named();
      if (first?.masterPort !== before.port) return true;
      await orderRedis(first.sentinel.port, `SENTINEL FAILOVER ${this.name}`);
      return false;
    });
    return this.successorOf(before);
  }

  /** Waits until every sentinel that answers names the same other master than `before`, and returns that one. */
  async successorOf(before: RedisServer): Promise<RedisServer> {
    await until('every sentinel names the new master', async () => {
      const ports = (await this.#named()).map(({ masterPort }) => masterPort);
      return new Set(ports).size === 1 && ports[0] !== before.port;
    });
    return this.master();
  }

  /** Whether a sentinel names this server as the master. */
  async isNamed({ port }: RedisServer): Promise<boolean> {
    return (await this.#named()).some(({ masterPort }) => masterPort === port);
  }

  /** Whether a sentinel is about to make another server the master. */
  async isFailingOver(): Promise<boolean> {
    const answers = await Promise.all(this.watchers.map((sentinel) => this.#seenBy(sentinel)));
    return answers.some((answer) => answer.includes('failover_in_progress'));
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

  /** What this sentinel knows of the master; '' if it does not answer. */
  #seenBy({ port }: RedisSentinel): Promise<string> {
    return askRedis(port, `SENTINEL MASTER ${this.name}`);
  }

  async #isComplete(): Promise<boolean> {
    const knows = async (sentinel: RedisSentinel): Promise<boolean> => {
      const answer = await this.#seenBy(sentinel);
      const numberOf = (field: string): number =>
        Number(new RegExp(`\\r\\n${field}\\r\\n\\$\\d+\\r\\n(\\d+)`).exec(answer)?.[1]);
      return (
        numberOf('num-slaves') === this.servers.length - 1 &&
        numberOf('num-other-sentinels') === SENTINELS - 1
      );
    };
    return (await Promise.all(this.watchers.map(knows))).every(Boolean);
  }
}
