import { Redis } from 'ioredis';

/** A connection for inspecting and manipulating a server. It survives a server that a test stops or restarts. */
export function connectAdmin(url: string): Redis {
  const redis = new Redis(url, { maxRetriesPerRequest: null });
  redis.on('error', () => {});
  return redis;
}
