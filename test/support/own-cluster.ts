import { afterAll, beforeAll } from '@jest/globals';
import { RedisCluster, type RedisClusterOptions, type RedisServer } from 'dev-servers';
import type { RedisClusterOptions as ClusterConnection } from '../../libs/nestjs-locked/src/redis/connection/open-redis.js';
import { openLocksOn, type OpenedLocks, type OpenOptions } from './open-locks.js';

export interface OwnCluster {
  readonly servers: RedisCluster;
  /** What to pass as `connection`. */
  readonly connection: ClusterConnection;
  openLocks(options?: OpenOptions): Promise<OpenedLocks>;
  /** The master of a lock. */
  masterOf(key: string): Promise<RedisServer>;
  slotOf(key: string): Promise<number>;
  /** A master that does not have this lock. */
  otherMaster(key: string): Promise<RedisServer>;
}

/** Three masters and three replicas for one spec file or `describe` alone, from its first `beforeAll` to its end. */
export function useRedisCluster(options?: RedisClusterOptions): OwnCluster {
  let servers: RedisCluster | undefined;

  beforeAll(async () => {
    servers = await RedisCluster.start(options);
  }, 60_000);

  afterAll(() => servers?.stop());

  const started = (): RedisCluster => {
    if (servers === undefined) throw new Error('The cluster is there from beforeAll on');
    return servers;
  };
  const connection = (): ClusterConnection => ({ cluster: started().startupNodes });
  const slotOf = (key: string): Promise<number> => started().slotOf(`lock:{${key}}`);
  const masterOf = async (key: string): Promise<RedisServer> =>
    started().masterOf(await slotOf(key));
  return {
    get servers() {
      return started();
    },
    get connection() {
      return connection();
    },
    openLocks: (own) => openLocksOn(connection(), own),
    masterOf,
    slotOf,
    otherMaster: async (key) => {
      const own = await masterOf(key);
      const other = (await started().masters()).find((master) => master !== own);
      if (other === undefined) throw new Error('The cluster has one master only');
      return other;
    },
  };
}
