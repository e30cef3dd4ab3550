import type { CommandRunner, LockServers } from '../redis/connection/lock-servers.js';
import type { RedisConnection } from '../redis/connection/server/redis-client.js';
import type { CommandOutcome, RedisCommand } from '../redis/connection/traffic/redis-command.js';
import { askRedis } from './ask-redis.js';
import { OperatorCluster } from './operator-cluster.js';
import { ONCE, OperatorServer } from './operator-server.js';

/**
 * The servers of an operator, without what a lock service needs: no inbox, no entry of this process, no proof that
 * locks could be taken, for which a user who may only read has no rights.
 */
export class OperatorServers implements Pick<LockServers, 'run' | 'each' | 'isReady'> {
  readonly isReady = true;
  readonly #server: OperatorServer;
  #cluster: OperatorCluster | undefined;

  /** @throws UsageError if it is no URL of Redis */
  constructor(url: string) {
    this.#server = new OperatorServer(url);
  }

  /** Where they are, for messages. */
  get address(): string {
    const { address } = this.#server;
    return this.isCluster ? `the Redis Cluster of ${address}` : address;
  }

  get isCluster(): boolean {
    return this.#cluster !== undefined;
  }

  /** What every connection puts before its keys. */
  get connectionPrefix(): string {
    return this.#server.client.options.keyPrefix ?? '';
  }

  /** @throws LockStoreError */
  async connect(): Promise<void> {
    const isInCluster = await this.#server.connect();
    if (!isInCluster) return;
    this.#server.redis.disconnect();
    this.#cluster = new OperatorCluster(this.#server.client);
    await this.#cluster.connect();
  }

  run<T>(command: RedisCommand, read: (outcome: CommandOutcome) => T): Promise<T> {
    return askRedis((this.#cluster ?? this.#server).redis, command, read);
  }

  /** @throws LockStoreError */
  async each(): Promise<readonly CommandRunner[]> {
    if (this.#cluster === undefined) return [this];
    return this.#cluster.masters().map(({ address, redis }) => ({
      run: (command, read) => {
        const action = `${command.action} of ${address}`;
        return askRedis(redis, { ...command, action }, read);
      },
    }));
  }

  /** The ids of the masters of a cluster; undefined for one server. @throws LockStoreError */
  async nodeIds(): Promise<readonly string[] | undefined> {
    if (!this.isCluster) return undefined;
    const command: RedisCommand = {
      action: 'ask for the id',
      keys: [],
      send: (redis) => redis.cluster('MYID'),
    };
    const masters = await this.each();
    return Promise.all(
      masters.map((master) =>
        master.run(command, (outcome) => {
          if (outcome.kind === 'failed') throw outcome.cause;
          return String(outcome.reply);
        }),
      ),
    );
  }

  /** To the same server, or to one node of the cluster; not connected yet. */
  anotherConnection(): RedisConnection {
    return this.#server.client.duplicate({ ...ONCE, lazyConnect: true });
  }

  close(): void {
    (this.#cluster ?? this.#server).redis.disconnect();
  }
}
