import type { RedisServer } from 'dev-servers';
import type { Redis } from 'ioredis';
import { startRedisServer } from './own-redis.js';

/** A server whose memory fills up quickly, for the current test only. */
export function startSmallRedis(): Promise<RedisServer> {
  return startRedisServer('--maxmemory', '4mb', '--maxmemory-policy', 'noeviction');
}

/**
 * Writes until the server refuses even small values. Then lowers the limit, so that memory freed later, such as
 * buffers, makes no room.
 */
export async function fillMemory(redis: Redis): Promise<void> {
  for (const size of [100_000, 1_000, 10]) {
    for (let i = 0; ; i++) {
      const isRefused = await redis.set(`fill:${size}:${i}`, 'x'.repeat(size)).then(
        () => false,
        () => true,
      );
      if (isRefused) break;
    }
  }
  await redis.config('SET', 'maxmemory', '1mb');
}
