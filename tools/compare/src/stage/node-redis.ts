import type { RedisOptions } from 'ioredis';
import type { RedisServer } from './redis.js';

/** Settings in the words of ioredis. */
type Settings = Pick<RedisOptions, 'db' | 'enableOfflineQueue' | 'username' | 'password'>;

/** A client of the other library, as applications have it. */
export async function nodeRedis({ url }: Pick<RedisServer, 'url'>, settings: Settings = {}) {
  const { db = 0, enableOfflineQueue = true, username, password = '' } = settings;
  const { createClient } = await import('redis');
  const client = createClient({
    url,
    database: db,
    disableOfflineQueue: !enableOfflineQueue,
    ...(username !== undefined && { username, password }),
  });
  client.on('error', () => {}); // it is reported where a command fails
  await client.connect();
  return client;
}
