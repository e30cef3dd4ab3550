import { Redis } from 'ioredis';
import { once } from 'node:events';

/** One connection with the settings that ioredis has by default, for every lock that is given a client. */
export async function connect(url: string): Promise<Redis> {
  const redis = new Redis(url);
  await once(redis, 'ready');
  return redis;
}
