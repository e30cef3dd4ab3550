import { Redis } from 'ioredis';
import { once } from 'node:events';
import {
  type Adapter,
  holdBy,
  LEASE_MS,
  type OpenLocks,
  PERMITS,
  type Release,
} from './adapter.js';

const REDLOCK = { retryCount: -1, retryDelay: 20, retryJitter: 20 };
const REDIS_SEMAPHORE = { lockTimeout: LEASE_MS, acquireTimeout: 120_000, retryInterval: 10 };
const REDLOCK_UNIVERSAL = {
  ttl: LEASE_MS,
  retryAttempts: 1_000_000,
  retryDelay: 10,
  performance: 'lean',
} as const;

/** The one that has permits, too. */
export const redisSemaphore: Adapter = {
  id: 'redis-semaphore',
  name: 'redis-semaphore',
  kind: 'peer',
  settings:
    'redis-semaphore 5.8.0, a `Mutex` or `Semaphore` for each call, default `retryInterval` (10 ms) and refresh, `acquireTimeout` longer than any round.',
  async open(url) {
    const { Mutex, Semaphore } = await import('redis-semaphore');
    const redis = await connected(url);
    const hold = holdBy((key) => taken(new Mutex(redis, key, REDIS_SEMAPHORE)));
    const permits = holdBy((key) => taken(new Semaphore(redis, key, PERMITS, REDIS_SEMAPHORE)));
    return { hold, forms: { permits }, close: async () => redis.disconnect() };
  },
};

/** The other libraries. */
export const PEERS: readonly Adapter[] = [
  {
    id: 'redlock',
    name: 'redlock 5 beta',
    kind: 'peer',
    settings:
      'redlock 5.0.0-beta.2, `acquire` and `release`, `retryCount: -1`. `retryDelay` and `retryJitter` are 20 instead of 200 and 100: of 1, 2, 5, 10 and 20 ms, the fastest without work under the lock.',
    open: onClient(async (redis) => {
      const { default: Redlock } = await import('redlock');
      return acquireBy(new Redlock([redis], REDLOCK));
    }),
  },
  {
    id: 'sesamecare',
    name: '@sesamecare-oss/redlock',
    kind: 'peer',
    settings: '@sesamecare-oss/redlock 1.4.0, set like redlock 5 beta.',
    open: onClient(async (redis) => {
      const { Redlock } = await import('@sesamecare-oss/redlock');
      return acquireBy(new Redlock([redis], REDLOCK));
    }),
  },
  redisSemaphore,
  {
    id: 'redlock-universal',
    name: 'redlock-universal',
    kind: 'peer',
    settings:
      "redlock-universal 0.8.5, `createLock` for each call, `performance: 'lean'`, `retryDelay: 10` instead of 100, unlimited `retryAttempts`.",
    open: onClient(async (redis) => {
      const { createLock, IoredisAdapter } = await import('redlock-universal');
      const adapter = new IoredisAdapter(redis);
      return async (key) => {
        const lock = createLock({ adapter, key, ...REDLOCK_UNIVERSAL });
        const handle = await lock.acquire();
        return () => lock.release(handle);
      };
    }),
  },
];

/** Opens locks on one connection with the settings that ioredis has by default. */
export function onClient(
  open: (redis: Redis) => Promise<(key: string) => Promise<Release>>,
): Adapter['open'] {
  return async (url): Promise<OpenLocks> => {
    const redis = await connected(url);
    return { hold: holdBy(await open(redis)), close: async () => redis.disconnect() };
  };
}

async function connected(url: string): Promise<Redis> {
  const redis = new Redis(url);
  await once(redis, 'ready');
  return redis;
}

async function taken(lock: {
  acquire(): Promise<void>;
  release(): Promise<void>;
}): Promise<Release> {
  await lock.acquire();
  return () => lock.release();
}

/** What redlock 5 and the library that descends from it have in common. */
interface RedlockLike {
  on(event: 'error', listen: (error: Error) => void): unknown;
  acquire(resources: string[], durationMs: number): Promise<{ release(): Promise<unknown> }>;
}

export function acquireBy(
  redlock: RedlockLike,
  leaseMs = LEASE_MS,
): (key: string) => Promise<Release> {
  redlock.on('error', () => {}); // it also reports here that a key is taken
  return async (key) => {
    const lock = await redlock.acquire([key], leaseMs);
    return () => lock.release();
  };
}
