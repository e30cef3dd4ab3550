import { afterAll, beforeAll } from '@jest/globals';
import { RedisCluster, type RedisClusterOptions, type RedisServer } from 'dev-servers';
import type { RedisClusterOptions as ClusterConnection } from '../../libs/nestjs-locked/src/redis/connection/server/open-redis.js';
import { afterTest } from './after-test.js';
import { type OpenedLocks, openLocksOn, type OpenOptions } from './open-locks.js';

/** Three masters and three replicas, and a lock service on them. */
export class OwnCluster {
  readonly #servers: () => RedisCluster;

  constructor(servers: () => RedisCluster) {
    this.#servers = servers;
  }

  get servers(): RedisCluster {
    return this.#servers();
  }

  /** What to pass as `connection`. */
  get connection(): ClusterConnection {
    return { cluster: this.servers.startupNodes };
  }

  openLocks(options?: OpenOptions): Promise<OpenedLocks> {
    return openLocksOn(this.connection, options);
  }

  slotOf(key: string): Promise<number> {
    return this.servers.slotOf(`lock:{${key}}`);
  }

  /** The master of a lock. */
  async masterOf(key: string): Promise<RedisServer> {
    return this.servers.masterOf(await this.slotOf(key));
  }

  /** A master that does not have this lock. */
  async otherMaster(key: string): Promise<RedisServer> {
    const own = await this.masterOf(key);
    const other = (await this.servers.masters()).find((master) => master !== own);
    if (other === undefined) throw new Error('The cluster has one master only');
    return other;
  }
}

/** A cluster for one spec file or `describe` alone, from its first `beforeAll` to its end. */
export function useRedisCluster(options?: RedisClusterOptions): OwnCluster {
  let servers: RedisCluster | undefined;

  beforeAll(async () => {
    servers = await RedisCluster.start(options);
  });

  afterAll(() => servers?.stop());

  return new OwnCluster(() => {
    if (servers === undefined) throw new Error('The cluster is there from beforeAll on');
    return servers;
  });
}

/** A cluster for the present test alone. */
export async function startRedisCluster(options?: RedisClusterOptions): Promise<OwnCluster> {
  const servers = await RedisCluster.start(options);
  afterTest(() => servers.stop());
  return new OwnCluster(() => servers);
}
