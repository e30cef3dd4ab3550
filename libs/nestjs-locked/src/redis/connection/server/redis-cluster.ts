import type { RedisClient } from './redis-client.js';

/**
 * An ioredis 5 or 6 `Cluster`, which `connection` accepts for a Redis Cluster. As with `RedisClient`, only its options
 * are used, and it stays yours: the locks discover the masters with a duplicate of it, and have their own connections
 * to each.
 */
export interface RedisCluster {
  /** True; no other client has it. */
  readonly isCluster: boolean;
  /** The client's options, which are read. */
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
    /** Maps the nodes' own addresses to reachable ones. */
    readonly natMap?: NatMap | undefined;
  };
  /** The addresses of each slot's nodes, the master first. */
  readonly slots: readonly (readonly string[])[];
  /** A client for each master that has slots. */
  nodes(role: 'master'): RedisClient[];
  /** Creates another client that asks these nodes first, with these options overriding its own. */
  duplicate(startupNodes: { host: string; port: number }[], options: object): RedisCluster;
  /** Resolves when the nodes are known. */
  connect(): Promise<unknown>;
  /** Closes every connection. */
  disconnect(): void;
  /** Emitted when no node has answered. */
  on(event: 'error', listener: (error: Error) => void): unknown;
  /** Emitted for each node that may be asked, the configured ones first. */
  on(event: '+node', listener: (node: RedisClient) => void): unknown;
  /** Emitted when a node has not answered. */
  on(event: 'node error', listener: (error: Error, address: string) => void): unknown;
}

export interface Address {
  readonly host: string;
  readonly port: number;
}

type NatMap = Readonly<Record<string, Address>> | ((address: string) => Address | null);

/** The nodes that were given to a Cluster. ioredis has them, but not in its types. */
export function startupNodesOf(client: RedisCluster): readonly unknown[] {
  const { startupNodes } = client as { startupNodes?: unknown };
  return Array.isArray(startupNodes) ? startupNodes : [];
}

export function isCluster(client: RedisClient | RedisCluster): client is RedisCluster {
  return 'isCluster' in client && client.isCluster;
}
