import { RedisKeys } from '../scripts/redis-keys.js';
import { CHANNEL_PREFIX } from './redisson-protocol.lua.js';

/**
 * The names of keys in Redis if they are those of Redisson: a lock has the name that the application gives it. Only
 * what is our own has the prefix: the fence, the inboxes and the entries of processes.
 */
export class RedissonKeys extends RedisKeys {
  override of(key: string): readonly [lock: string, fence: string] {
    return [key, this.sharedFence];
  }

  override lockOf(key: string): string {
    return key;
  }

  override probedOf(key: string): readonly [lock: string] {
    return [this.prefix + key];
  }

  override get commands(): string {
    return 'hset hexists hdel hkeys hlen unsubscribe';
  }

  override rights(connectionPrefix: string): string {
    return `${super.rights(connectionPrefix)} ~${connectionPrefix}<names of locks> &${CHANNEL_PREFIX}*`;
  }
}
