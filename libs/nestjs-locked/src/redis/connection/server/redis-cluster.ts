import type { RedisClient } from './redis-client.js';

/**
 * What `connection` may be for a Redis Cluster: a `Cluster` of ioredis 5 or 6. As with `RedisClient`, only its options
 * are used, and it stays yours: the locks look for the masters with a duplicate of it, and have connections of their
 * own to each of them.
 */
export interface RedisCluster {
  /** True; no other client has it. */
  readonly isCluster: boolean;
  /** The options that it was made with; these are read. */
  readonly options: {
    /** Precedes the keys of every command. */
    readonly keyPrefix?: string | undefined;
    /** For the connections to all nodes. */
    readonly redisOptions?:
      | {
          /** Read again before every reconnect. */
          readonly username?: string | null | undefined;
          /** Read again before every reconnect, because passwords may change. */
          readonly password?: string | null | undefined;
          /** Whether, and how, connections are encrypted. */
          readonly tls?: object | undefined;
        }
      | undefined;
    /** Addresses as the nodes know them, and as we reach them. */
    readonly natMap?: NatMap | undefined;
  };
  /** For each slot the addresses of its nodes, the master first. */
  readonly slots: readonly (readonly string[])[];
  /** A client for each master that has slots. */
  nodes(role: 'master'): RedisClient[];
  /** Another one, which asks these nodes first, with these options instead of its own. */
  duplicate(startupNodes: { host: string; port: number }[], options: object): RedisCluster;
  /** Settles when it knows the nodes. */
  connect(): Promise<unknown>;
  /** Closes every connection. */
  disconnect(): void;
  /** Tells that no node has answered. */
  on(event: 'error', listener: (error: Error) => void): unknown;
  /** Tells of a node that it may ask, first of all of those that it was made with. */
  on(event: '+node', listener: (node: RedisClient) => void): unknown;
  /** Tells that a node has not answered. */
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
