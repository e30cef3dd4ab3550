import { Redis } from 'ioredis';

/** A connection for looking on and for meddling. It outlives its server, which tests take away. */
export function connectAdmin(url: string): Redis {
  const redis = new Redis(url, { maxRetriesPerRequest: null });
  redis.on('error', () => {});
  return redis;
}
