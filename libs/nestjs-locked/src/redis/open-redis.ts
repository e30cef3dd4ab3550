import { Redis, type RedisOptions as AnyRedisOptions } from 'ioredis';
import { LockConfigError } from '../core/lock.errors.js';
import type { RedisClient } from './redis-client.js';

/** The reply mapping of ioredis 6 makes no difference to us, and ioredis 5 has none. */
export type RedisOptions = Omit<AnyRedisOptions, 'replyMapping'>;

export interface OpenedRedis {
  readonly client: RedisClient;
  /** Closes what was opened here; nothing, for a client that somebody else made. */
  close(): Promise<void>;
}

/** @throws LockConfigError if `connection` is none of the three */
export function openRedis(connection: string | RedisOptions | RedisClient): OpenedRedis {
  if (isClient(connection)) return { client: connection, close: async () => {} };
  const client = newClient(connection);
  // Without a listener ioredis prints every failed attempt; ours end as errors of the commands.
  client.on('error', () => {});
  return { client, close: async () => client.disconnect() };
}

function newClient(connection: string | RedisOptions): Redis {
  if (isPlainObject(connection)) return new Redis({ ...PATIENCE, ...connection });
  if (typeof connection === 'string' && /^(rediss?|unix):\/\//.test(connection))
    return new Redis(connection, PATIENCE);
  throw new LockConfigError(
    `Invalid option connection: ${typeof connection === 'string' ? `'${connection}'` : String(connection)} must be a URL such as 'redis://localhost:6379', ioredis options, or an ioredis client`,
  );
}

/** Commands have our own time limit, so reconnecting may go on for ever, and often. */
const PATIENCE: RedisOptions = {
  // Connected when the locks are opened.
  lazyConnect: true,
  maxRetriesPerRequest: null,
  retryStrategy: reconnectDelay,
  // A connection on which nothing is answered any more is left; ioredis would keep it for ever.
  socketTimeout: 5_000,
};

/** How long to wait before the next attempt, in milliseconds. */
export function reconnectDelay(times: number): number {
  return Math.min(50 * 2 ** Math.min(times, 5), 1_000);
}

/** Not an array, and not the client of another library: its fields would be read as options. */
function isPlainObject(value: unknown): value is RedisOptions {
  if (typeof value !== 'object' || value === null) return false;
  const prototype: unknown = Object.getPrototypeOf(value);
  return prototype === Object.prototype || prototype === null;
}

function isClient(connection: unknown): connection is RedisClient {
  const methods = ['evalsha', 'eval', 'duplicate', 'on', 'off', 'info'];
  return (
    typeof connection === 'object' &&
    connection !== null &&
    !('isCluster' in connection && connection.isCluster === true) &&
    methods.every((name) => typeof (connection as Record<string, unknown>)[name] === 'function')
  );
}
