import { afterAll, beforeAll } from '@jest/globals';
import { RedisCluster, type RedisClusterOptions, type RedisServer } from 'dev-servers';
import type { RedisClusterOptions as ClusterConnection } from '../../libs/nestjs-locked/src/redis/connection/server/open-redis.js';
import { afterTest } from './after-test.js';
import { type OpenedLocks, openLocksOn, type OpenOptions } from './open-locks.js';

/** A Redis Cluster, and the lock services on it. By default it has three masters and three replicas. */
export class OwnCluster {
  readonly #servers: () => RedisCluster;

  constructor(servers: () => RedisCluster) {
    this.#servers = servers;
  }

  get servers(): RedisCluster {
    return this.#servers();
  }

  /** The `connection` option for this cluster. */
  get connection(): ClusterConnection {
    return { cluster: this.servers.startupNodes };
  }

  openLocks(options?: OpenOptions): Promise<OpenedLocks> {
    return openLocksOn(this.connection, options);
  }

  slotOf(key: string): Promise<number> {
    return this.servers.slotOf(`lock:{${key}}`);
  }

  /** The master that stores this lock. */
  async masterOf(key: string): Promise<RedisServer> {
    return this.servers.masterOf(await this.slotOf(key));
  }

  /** A master that does not store this lock. */
  async otherMaster(key: string): Promise<RedisServer> {
    const own = await this.masterOf(key);
    const other = (await this.servers.masters()).find((master) => master !== own);
    if (other === undefined) throw new Error('The cluster has only one master');
    return other;
  }
}

/** A cluster for one spec file or `describe`, from the first `beforeAll` to the end. */
export function useRedisCluster(options?: RedisClusterOptions): OwnCluster {
  let servers: RedisCluster | undefined;

  beforeAll(async () => {
    servers = await RedisCluster.start(options);
  });

  afterAll(() => servers?.stop());

  return new OwnCluster(() => {
    if (servers === undefined) throw new Error('The cluster does not run before beforeAll');
    return servers;
  });
}

/** A cluster for the current test only. */
export async function startRedisCluster(options?: RedisClusterOptions): Promise<OwnCluster> {
  const servers = await RedisCluster.start(options);
  afterTest(() => servers.stop());
  return new OwnCluster(() => servers);
}
