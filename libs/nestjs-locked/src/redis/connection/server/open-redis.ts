import {
  Cluster,
  type ClusterNode,
  type ClusterOptions,
  Redis,
  type RedisOptions as AnyRedisOptions,
} from 'ioredis';
import { isPromiseLike } from '../../../core/arguments.js';
import { shownValue } from '../../../core/runtime/shown-value.js';
import { invalidConnection } from './connection-error.js';
import {
  assertClusterOptions,
  assertDatabase,
  assertNodes,
  assertRedisOptions,
} from './connection-options.js';
import { assertUrl } from './connection-url.js';
import { reasonOf } from './reason-of.js';
import type { RedisClient } from './redis-client.js';
import { type RedisCluster, startupNodesOf } from './redis-cluster.js';

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
  if (isClient(connection)) {
    assertDatabase(connection.options.db);
    return { client: connection, close: async () => {} };
  }
  if (isClusterClient(connection)) {
    assertNodes(startupNodesOf(connection));
    return { client: connection, close: async () => {} };
  }
  const client = isClusterOptions(connection) ? newCluster(connection) : newClient(connection);
  return { client, close: async () => client.disconnect() };
}

function newCluster(connection: RedisClusterOptions): Cluster {
  assertClusterOptions(connection);
  const { cluster, ...options } = connection;
  const own = { ...options, lazyConnect: true } as ConstructorParameters<typeof Cluster>[1];
  return made(() => new Cluster([...cluster], own));
}

function newClient(connection: string | RedisOptions): Redis {
  if (typeof connection === 'string') {
    assertUrl(connection);
    const url = connection.replace(/^valkey/, 'redis');
    return made(() => new Redis(url, { lazyConnect: true }));
  }
  const kind = kindOf(connection);
  if (kind !== undefined) {
    throw invalidConnection(
      `${kind} cannot be used; pass a URL such as 'redis://localhost:6379', ioredis options, or an ioredis client`,
    );
  }
  if (!isPlainObject(connection)) {
    throw invalidConnection(
      `${shownValue(connection)} must be a URL such as 'redis://localhost:6379', ioredis options, or an ioredis client${adviceFor(connection)}`,
    );
  }
  assertRedisOptions(connection);
  return made(() => new Redis({ ...connection, lazyConnect: true }));
}

/** ioredis refuses some options itself, such as a reply mapping that the protocol does not have. */
function made<Client>(make: () => Client): Client {
  try {
    return make();
  } catch (cause) {
    throw invalidConnection(`ioredis refuses it: ${reasonOf(cause)}`, { cause });
  }
}

/** What to do with something that is neither text nor options. */
function adviceFor(connection: unknown): string {
  if (connection === undefined || connection === null)
    return '; if a ConfigService or an environment variable has it, that variable is not set';
  if (connection instanceof URL) return '; pass its text: url.href';
  if (Array.isArray(connection)) {
    return '; for a Redis Cluster, pass { cluster: [{ host, port }] }, for Sentinel { sentinels: [{ host, port }], name }';
  }
  if (typeof connection === 'function')
    return '; pass what it makes: call it, or write new before a class';
  if (isPromiseLike(connection)) return '; await it, in an async useFactory of forRootAsync';
  return '';
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
