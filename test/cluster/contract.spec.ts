import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { Cluster } from 'ioredis';
import { Cluster as Cluster5 } from 'ioredis5';
import { randomUUID } from 'node:crypto';
import type { Lock } from '../../libs/nestjs-locked/src/core/lock.js';
import type { StoreMessage } from '../../libs/nestjs-locked/src/core/store/lock-store.js';
import { systemClock } from '../../libs/nestjs-locked/src/core/time/clock.js';
import type { RedisCluster } from '../../libs/nestjs-locked/src/redis/connection/server/redis-cluster.js';
import { RedisLockStore } from '../../libs/nestjs-locked/src/redis/redis-lock-store.js';
import {
  type ContractStore,
  type ContractStores,
  lockStoreContract,
} from '../support/lock-store-contract.js';
import { useRedisCluster } from '../support/own-cluster.js';

const LEASE_MS = 2_000;

type Nodes = { host: string; port: number }[];

const clients: readonly (readonly [string, (nodes: Nodes) => RedisCluster])[] = [
  ['ioredis 6', (nodes) => new Cluster(nodes, { lazyConnect: true })],
  [
    'ioredis 6 with RESP3',
    (nodes) => new Cluster(nodes, { lazyConnect: true, redisOptions: { protocol: 3 } }),
  ],
  ['ioredis 5', (nodes) => new Cluster5(nodes, { lazyConnect: true })],
];

describe('RedisLockStore on a Redis Cluster', () => {
  const cluster = useRedisCluster();

  describe.each(clients)('with a Cluster of %s', (_version, connect) => {
    let stores: ContractStores;

    beforeAll(async () => {
      const open = async (): Promise<ContractStore> => {
        const client = connect(cluster.servers.startupNodes);
        const options = { client, clock: systemClock, keyPrefix: 'lock:', leaseMs: LEASE_MS };
        const store = new RedisLockStore({
          ...options,
          closeClient: async () => client.disconnect(),
        });
        const inbox: StoreMessage[] = [];
        const ignore = (): void => {};
        await store.open({
          message: (message) => inbox.push(message),
          reconnected: ignore,
          inboxLost: ignore,
          mayEvict: ignore,
          storeLost: ignore,
          storeBack: ignore,
        });
        return { store, inbox };
      };
      stores = { a: await open(), b: await open() };
    });

    afterAll(() => Promise.all([stores.a.store.close(), stores.b.store.close()]));

    it.each(lockStoreContract)('$title [G29]', async ({ run }) => run(stores, randomUUID()));
  });

  it('uses the keys of every slot [G29]', async () => {
    const { engine } = await cluster.openLocks({ leaseMs: 10_000 });
    const other = await cluster.openLocks({ leaseMs: 10_000 });
    const keys = Array.from({ length: 300 }, (_, i) => `key:${i}`);
    const locks: Lock[] = [];
    for (let from = 0; from < keys.length; from += 100) {
      const some = keys.slice(from, from + 100);
      locks.push(...(await Promise.all(some.map((key) => engine.acquire(key)))));
      const tries = await Promise.all(some.map((key) => other.engine.tryAcquire(key)));
      expect(tries).toEqual(some.map(() => null));
    }
    const masters = await cluster.servers.masters();
    const held = new Set<string>();
    for await (const { key } of other.engine.list('key:*')) held.add(key);
    expect(held).toEqual(new Set(keys));
    expect(masters).toHaveLength(3);
    expect(await Promise.all(locks.map((lock) => lock.release()))).toEqual(keys.map(() => true));
  });
});
