import { RedisServer } from 'dev-servers';
import { Redis, type RedisOptions } from 'ioredis';

export { RedisServer };

/** A client as applications have it. */
export async function connect(server: RedisServer, options: RedisOptions = {}): Promise<Redis> {
  const redis = new Redis(server.url, options);
  redis.on('error', () => {}); // it is reported where a command fails
  await new Promise((resolve) => redis.once('ready', resolve)); // and not `once`, which fails with the first error
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
export function scriptCount(redis: Redis): Promise<number> {
  return callsOf(redis, /cmdstat_(?:eval|evalsha):calls=(\d+)/g);
}

/** How many times a call asks for a lock: by a script, or by a SET without one. */
export async function triesOf(redis: Redis, call: () => Promise<unknown>): Promise<number> {
  const count = async (): Promise<[scripts: number, sets: number]> => [
    await scriptCount(redis),
    await callsOf(redis, /cmdstat_set:calls=(\d+)/g),
  ];
  const [scripts, sets] = await count();
  await call();
  const [allScripts, allSets] = await count();
  return allScripts - scripts || allSets - sets;
}

async function callsOf(redis: Redis, commands: RegExp): Promise<number> {
  const stats = await redis.info('commandstats');
  return [...stats.matchAll(commands)].reduce((sum, [, count]) => sum + Number(count), 0);
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
