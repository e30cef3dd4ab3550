import type { RedisClient } from './redis-client.js';

/**
 * What `connection` may be for a Redis Cluster: a `Cluster` of ioredis 5 or 6. As with `RedisClient`, only its options
 * are used, and it stays yours: the locks look for the masters with a duplicate of it, and have connections of their
 * own to each of them.
 */
export interface RedisCluster {
  readonly isCluster: boolean;
  readonly options: {
    readonly keyPrefix?: string | undefined;
    readonly redisOptions?:
      | {
          readonly username?: string | null | undefined;
          readonly password?: string | null | undefined;
          readonly tls?: object | undefined;
        }
      | undefined;
    /** Addresses as the nodes know them, and as we reach them. */
    readonly natMap?: NatMap | undefined;
  };
  /** For each slot the addresses of its nodes, the master first. */
  readonly slots: readonly (readonly string[])[];
  nodes(role: 'master'): RedisClient[];
  duplicate(startupNodes: { host: string; port: number }[], options: object): RedisCluster;
  connect(): Promise<unknown>;
  disconnect(): void;
  on(event: 'error', listener: (error: Error) => void): unknown;
  on(event: 'node error', listener: (error: Error, address: string) => void): unknown;
}

export interface Address {
  readonly host: string;
  readonly port: number;
}

type NatMap = Readonly<Record<string, Address>> | ((address: string) => Address | null);

export function isCluster(client: RedisClient | RedisCluster): client is RedisCluster {
  return 'isCluster' in client && client.isCluster;
}
