import { Redis, type RedisOptions } from 'ioredis';

/** The script as it runs on a server whose TIME answers zero in scripts, as Dragonfly's did. */
export function withoutTime(lua: string): string {
  const changed = lua.replaceAll("redis.call('TIME')", "({ '0', '0' })");
  if (changed === lua) throw new Error('This script does not ask for the time');
  return changed;
}

/** A client for which a server is such a one. It knows no script by its hash, and so gets each whole. */
export function timelessRedis(url: string): Redis {
  return timeless(new Redis(url, { lazyConnect: true }));
}

function timeless(redis: Redis): Redis {
  const send = redis.eval.bind(redis) as (lua: string, ...rest: unknown[]) => Promise<unknown>;
  const duplicate = redis.duplicate.bind(redis);
  return Object.assign(redis, {
    eval: (lua: string, ...rest: unknown[]) => send(withoutTime(lua), ...rest),
    evalsha: () => Promise.reject(new Error('NOSCRIPT')),
    duplicate: (override?: Partial<RedisOptions>) => timeless(duplicate(override)),
  });
}
