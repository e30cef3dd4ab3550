import type { Redis } from 'ioredis';
import type { RedisScript } from '../../libs/nestjs-locked/src/redis/scripts/redis-script.js';

/** Runs a script, and loads it first if the server does not know it. */
export async function runScript(
  redis: Redis,
  script: RedisScript,
  keys: readonly string[],
  args: readonly (string | number)[],
): Promise<unknown> {
  const loading = redis.script('LOAD', script.lua);
  const [reply] = await Promise.all([script.send(redis, keys, args, false), loading]);
  return reply;
}
