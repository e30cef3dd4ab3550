import { Cluster } from 'ioredis';
import { LockStoreError } from '../core/lock.errors.js';
import { systemClock } from '../core/time/clock.js';
import type { RedisClient, RedisConnection } from '../redis/connection/server/redis-client.js';
import { withinLimit } from '../redis/connection/silence/time-limit.js';
import { LIMIT_MS } from './ask-redis.js';
import { ONCE } from './operator-server.js';

const SLOTS = 16_384;

/** The cluster to which a server belongs, as ioredis finds it. */
export class OperatorCluster {
  readonly #cluster: Cluster;
  #failure: Error | undefined;

  /** @param node its address, user, password and TLS are used for all nodes */
  constructor({ options: { host, port, username, password, tls, keyPrefix } }: RedisClient) {
    const given = { username, password, tls };
    this.#cluster = new Cluster([{ host: host ?? 'localhost', port: port ?? 6_379 }], {
      keyPrefix: keyPrefix ?? '',
      redisOptions: { ...ONCE, ...given } as object,
      // A certificate names hosts, not addresses.
      dnsLookup: (host, found) => found(null, host),
      lazyConnect: true,
      enableReadyCheck: false,
      clusterRetryStrategy: () => null,
      // A release that was sent twice could take the lock from the next holder.
      retryDelayOnFailover: 0,
      retryDelayOnClusterDown: 0,
      slotsRefreshTimeout: LIMIT_MS,
    });
    this.#cluster.on('error', () => {}); // it says only that no node has answered
    this.#cluster.on('node error', (error: Error) => (this.#failure = error));
  }

  /** For all commands with keys: each goes to the node of its slot. */
  get redis(): RedisConnection {
    return this.#cluster as unknown as RedisConnection;
  }

  /** @throws LockStoreError */
  async connect(): Promise<void> {
    await withinLimit(systemClock, LIMIT_MS, 'find the nodes of the cluster', async () => {
      try {
        await this.#cluster.connect();
      } catch (error) {
        throw this.#failure ?? error;
      }
    });
  }

  /** @throws LockStoreError if some slots have none, so that locks would be missing */
  masters(): { readonly address: string; readonly redis: RedisConnection }[] {
    const { slots } = this.#cluster;
    const served = Object.values(slots).filter(([master]) => master !== undefined).length;
    if (served !== SLOTS) {
      throw new LockStoreError(
        `Cannot list the locks: the cluster serves only ${served} of its ${SLOTS} slots`,
      );
    }
    return this.#cluster.nodes('master').map((redis) => ({
      address: `${redis.options.host}:${redis.options.port}`,
      redis,
    }));
  }
}
