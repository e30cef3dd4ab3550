import type { Redis } from 'ioredis';
import type { RedisClient } from '../../libs/nestjs-locked/src/redis/connection/server/redis-client.js';
import type { RedisCluster } from '../../libs/nestjs-locked/src/redis/connection/server/redis-cluster.js';
import { RedisLockStore } from '../../libs/nestjs-locked/src/redis/redis-lock-store.js';
import { afterTest } from './after-test.js';
import { CountingClock } from './counting-clock.js';
import { StoreEvents } from './store-events.js';
import { uniqueKey } from './unique-key.js';

export const LEASE_MS = 30_000;

export interface StoreOptions {
  readonly leaseMs?: number;
  readonly keyPrefix?: string;
  readonly clock?: CountingClock;
  readonly startMs?: number;
}

/** Creates the store of one process and a log of its events, without opening it. Closed after the test. */
export function newRedisStore(client: RedisClient | RedisCluster, options: StoreOptions = {}) {
  const { leaseMs = LEASE_MS, keyPrefix = `${uniqueKey('store')}:` } = options;
  const clock = options.clock ?? new CountingClock();
  const store = new RedisLockStore({
    client,
    clock,
    keyPrefix,
    leaseMs,
    ...(options.startMs === undefined ? {} : { startMs: options.startMs }),
    closeClient: async () => {},
  });
  afterTest(() => store.close());
  const events = new StoreEvents();
  let count = 0;
  return {
    store,
    events,
    clock,
    keyPrefix,
    channel: `${keyPrefix}inbox:${store.processId}`,
    /** The name of the store's command connection. */
    commands: `${keyPrefix}commands:${store.processId}`,
    token: () => `${store.processId}:${++count}`,
    lockOf: (key: string) => `${keyPrefix}{${key}}`,
    fence: `${keyPrefix}fence`,
  };
}

/** Creates and opens the store of one process. Closed after the test. */
export async function openRedisStore(client: RedisClient | RedisCluster, options?: StoreOptions) {
  const peer = newRedisStore(client, options);
  await peer.store.open(peer.events);
  return peer;
}

/** The client ids of the connections with this name. */
export async function connectionsNamed(name: string, admin: Redis): Promise<string[]> {
  const list = (await admin.client('LIST')) as string;
  return list
    .split('\n')
    .filter((line) => line.split(' ').includes(`name=${name}`))
    .map((line) => /\bid=(\d+)/.exec(line)?.[1] ?? '');
}
