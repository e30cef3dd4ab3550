import { Redis, type RedisOptions as AnyRedisOptions } from 'ioredis';
import { LockConfigError } from '../../core/lock.errors.js';
import type { RedisClient } from './redis-client.js';

/** The reply mapping of ioredis 6 makes no difference to us, and ioredis 5 has none. */
export type RedisOptions = Omit<AnyRedisOptions, 'replyMapping'>;

export interface OpenedRedis {
  readonly client: RedisClient;
  /** Closes what was opened here. A client that somebody else made is left alone. */
  close(): Promise<void>;
}

/**
 * The client whose options the connections of the locks are made from. A client that is made here never connects
 * itself.
 * @throws LockConfigError if `connection` is none of the three
 */
export function openRedis(connection: string | RedisOptions | RedisClient): OpenedRedis {
  if (isClient(connection)) return { client: connection, close: async () => {} };
  const client = newClient(connection);
  return { client, close: async () => client.disconnect() };
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
    `Invalid option connection: ${typeof connection === 'string' ? `'${connection}'` : String(connection)} must be a URL such as 'redis://localhost:6379', ioredis options, or an ioredis client`,
  );
}

/** What people have at hand instead of a client of ioredis, recognized by the methods that only it has. */
function kindOf(connection: unknown): string | undefined {
  if (typeof connection !== 'object' || connection === null) return undefined;
  const has = (name: string): boolean => name in connection;
  if (has('isCluster')) return 'a Cluster of ioredis (not supported yet)';
  if (has('customCommand')) return 'a client of Valkey GLIDE';
  if (has('masters') || has('rootNodes')) return 'a cluster client of node-redis';
  if (has('sendCommand') || has('executeIsolated')) return 'a client of node-redis';
  return undefined;
}

/** False for an array and for the client of another library, whose fields would be read as options. */
function isPlainObject(value: unknown): value is RedisOptions {
  if (typeof value !== 'object' || value === null) return false;
  const prototype: unknown = Object.getPrototypeOf(value);
  return prototype === Object.prototype || prototype === null;
}

function isClient(connection: unknown): connection is RedisClient {
  const methods = ['evalsha', 'eval', 'duplicate', 'on', 'info'];
  return (
    typeof connection === 'object' &&
    connection !== null &&
    !('isCluster' in connection && connection.isCluster === true) &&
    methods.every((name) => typeof (connection as Record<string, unknown>)[name] === 'function')
  );
}
