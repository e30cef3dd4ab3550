import { RedisServer } from 'dev-servers';
import { Redis, type RedisOptions } from 'ioredis';
import { once } from 'node:events';

export { RedisServer };

/** A client as applications have it. */
export async function connect(server: RedisServer, options: RedisOptions = {}): Promise<Redis> {
  const redis = new Redis(server.url, options);
  redis.on('error', () => {}); // it is reported where a command fails
  await once(redis, 'ready');
  return redis;
}

/** A client, and a key that somebody else holds. */
export async function connectToHeld(
  server: RedisServer,
  key: string,
  heldMs = 60_000,
): Promise<Redis> {
  const redis = await connect(server);
  await redis.set(key, 'somebody', 'PX', heldMs);
  return redis;
}

/** How many commands the server has worked off so far, those of scripts included. */
export async function commandCount(redis: Redis): Promise<number> {
  const stats = await redis.info('stats');
  return Number(/total_commands_processed:(\d+)/.exec(stats)?.[1]);
}

/** How many scripts the server was sent so far. */
export async function scriptCount(redis: Redis): Promise<number> {
  const stats = await redis.info('commandstats');
  const calls = [...stats.matchAll(/cmdstat_(?:eval|evalsha):calls=(\d+)/g)];
  return calls.reduce((sum, [, count]) => sum + Number(count), 0);
}

/** The version of the servers that are started here. */
export async function redisVersion(): Promise<string> {
  const server = await RedisServer.start();
  const redis = await connect(server);
  const info = await redis.info('server');
  redis.disconnect();
  await server.stop();
  return /redis_version:(\S+)/.exec(info)?.[1] ?? '';
}
