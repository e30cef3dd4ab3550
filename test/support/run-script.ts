import type { Redis } from 'ioredis';
import type { RedisScript } from '../../libs/nestjs-locked/src/redis/scripts/redis-script.js';

/** Runs a script on a server that may not know it yet. */
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
