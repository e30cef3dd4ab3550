import { type Adapter, holdBy, LEASE_MS } from './adapter.js';
import { connect } from './connect.js';

const SETTINGS = { lockTimeout: LEASE_MS, acquireTimeout: 120_000, retryInterval: 10 };

export const redisSemaphore: Adapter = {
  id: 'redis-semaphore',
  name: 'redis-semaphore',
  kind: 'peer',
  settings:
    'redis-semaphore 5.8.0, a `Mutex` for each call, default `retryInterval` (10 ms) and refresh, `acquireTimeout` longer than any round.',
  async open(url) {
    const redis = await connect(url);
    const { Mutex } = await import('redis-semaphore');
    return {
      hold: holdBy(async (key) => {
        const mutex = new Mutex(redis, key, SETTINGS);
        await mutex.acquire();
        return () => mutex.release();
      }),
      close: async () => redis.disconnect(),
    };
  },
};
