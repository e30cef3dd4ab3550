import { type Adapter, holdBy, LEASE_MS } from './adapter.js';
import { connect } from './connect.js';

const SETTINGS = {
  ttl: LEASE_MS,
  retryAttempts: 1_000_000,
  retryDelay: 10,
  performance: 'lean',
} as const;

export const redlockUniversal: Adapter = {
  id: 'redlock-universal',
  name: 'redlock-universal',
  kind: 'peer',
  settings:
    "redlock-universal 0.8.5, `createLock` for each call, `performance: 'lean'`, `retryDelay: 10` instead of 100, unlimited `retryAttempts`.",
  async open(url) {
    const redis = await connect(url);
    const { createLock, IoredisAdapter } = await import('redlock-universal');
    const adapter = new IoredisAdapter(redis);
    return {
      hold: holdBy(async (key) => {
        const lock = createLock({ adapter, key, ...SETTINGS });
        const handle = await lock.acquire();
        return () => lock.release(handle);
      }),
      close: async () => redis.disconnect(),
    };
  },
};
