import {
  Cluster,
  type ClusterNode,
  type ClusterOptions,
  Redis,
  type RedisOptions as AnyRedisOptions,
} from 'ioredis';
import { LockConfigError } from '../../../core/lock.errors.js';
import { shownValue } from '../../../core/runtime/shown-value.js';
import type { RedisClient } from './redis-client.js';
import type { RedisCluster } from './redis-cluster.js';

/** The reply mapping of ioredis 6 does not affect the locks, and ioredis 5 has none. */
export type RedisOptions = Omit<AnyRedisOptions, 'replyMapping'>;

/** A Redis Cluster: some of its nodes, and options of the ioredis `Cluster`. */
export interface RedisClusterOptions extends ClusterOptions {
  /** Nodes from which the others are discovered; one that answers is enough. */
  readonly cluster: readonly ClusterNode[];
}

/** Where Redis is. */
export type RedisConnectionOptions =
  string | RedisOptions | RedisClient | RedisCluster | RedisClusterOptions;

export interface OpenedRedis {
  readonly client: RedisClient | RedisCluster;
  /** Closes a client created here. A client of the application is left alone. */
  close(): Promise<void>;
}

/**
 * The client from whose options the connections of the locks are made. A client created here never connects itself.
 * @throws LockConfigError if `connection` is invalid
 */
export function openRedis(connection: RedisConnectionOptions): OpenedRedis {
  if (isClient(connection) || isClusterClient(connection))
    return { client: connection, close: async () => {} };
  const client = isClusterOptions(connection) ? newCluster(connection) : newClient(connection);
  return { client, close: async () => client.disconnect() };
}

function newCluster({ cluster, ...options }: RedisClusterOptions): Cluster {
  if (!Array.isArray(cluster) || cluster.length === 0) {
    throw new LockConfigError(
      `Invalid option connection: cluster must be a list of nodes, such as [{ host: 'redis-1', port: 6379 }]`,
    );
  }
  const nodes = [...(cluster as readonly ClusterNode[])];
  const own = { ...options, lazyConnect: true } as ConstructorParameters<typeof Cluster>[1];
  return new Cluster(nodes, own);
}

function newClient(connection: string | RedisOptions): Redis {
  const kind = kindOf(connection);
  if (kind !== undefined) {
    throw new LockConfigError(
      `Invalid option connection: ${kind} cannot be used; pass a URL such as 'redis://localhost:6379', ioredis options, or an ioredis client`,
    );
  }
  if (isPlainObject(connection)) return new Redis({ ...connection, lazyConnect: true });
  if (typeof connection === 'string' && /^((redis|valkey)s?|unix):\/\//.test(connection))
    return new Redis(connection.replace(/^valkey/, 'redis'), { lazyConnect: true });
  throw new LockConfigError(
    `Invalid option connection: ${shownValue(connection)} must be a URL such as 'redis://localhost:6379', ioredis options, or an ioredis client`,
  );
}

/** The kind of another library's client, recognized by its specific methods. */
function kindOf(connection: unknown): string | undefined {
  if (typeof connection !== 'object' || connection === null) return undefined;
  const has = (name: string): boolean => name in connection;
  if (has('customCommand')) return 'a client of Valkey GLIDE';
  if (has('masters') || has('rootNodes')) return 'a cluster client of node-redis';
  if (has('sendCommand') || has('executeIsolated')) return 'a client of node-redis';
  return undefined;
}

/** False for an array and for another library's client, whose fields would be read as options. */
function isPlainObject(value: unknown): value is RedisOptions {
  if (typeof value !== 'object' || value === null) return false;
  const prototype: unknown = Object.getPrototypeOf(value);
  return prototype === Object.prototype || prototype === null;
}

function isClient(connection: RedisConnectionOptions): connection is RedisClient {
  const methods = ['evalsha', 'eval', 'duplicate', 'on', 'info'];
  return hasMethods(connection, methods) && !isNamedCluster(connection);
}

function isClusterClient(connection: RedisConnectionOptions): connection is RedisCluster {
  return hasMethods(connection, ['nodes', 'duplicate', 'on']) && isNamedCluster(connection);
}

function isClusterOptions(connection: RedisConnectionOptions): connection is RedisClusterOptions {
  return isPlainObject(connection) && 'cluster' in connection;
}

function isNamedCluster(connection: object): boolean {
  return 'isCluster' in connection && connection.isCluster === true;
}

function hasMethods(value: unknown, names: readonly string[]): value is object {
  return (
    typeof value === 'object' &&
    value !== null &&
    names.every((name) => typeof (value as Record<string, unknown>)[name] === 'function')
  );
}
