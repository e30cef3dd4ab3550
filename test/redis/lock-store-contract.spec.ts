import { afterAll, beforeAll, describe, it } from '@jest/globals';
import { Redis } from 'ioredis';
import { randomUUID } from 'node:crypto';
import type {
  AcquireCommand,
  LockStore,
  ReleaseCommand,
  RequeueCommand,
  StoreMessage,
} from '../../libs/nestjs-locked/src/core/store/lock-store.js';
import { systemClock } from '../../libs/nestjs-locked/src/core/time/clock.js';
import { RedisLockStore } from '../../libs/nestjs-locked/src/redis/redis-lock-store.js';
import { InMemoryLockStore } from '../../libs/nestjs-locked/src/testing/in-memory-lock-store.js';
import { InMemoryLocks } from '../../libs/nestjs-locked/src/testing/in-memory-locks.js';
import {
  type ContractStore,
  type ContractStores,
  lockStoreContract,
} from '../support/lock-store-contract.js';
import { useRedis } from '../support/shared-redis.js';

const LEASE_MS = 2_000;

async function opened(store: LockStore): Promise<ContractStore> {
  const inbox: StoreMessage[] = [];
  await store.open({
    message: (message) => inbox.push(message),
    reconnected: () => {},
    inboxLost: () => {},
    mayEvict: () => {},
    storeLost: () => {},
    storeBack: () => {},
  });
  return { store, inbox };
}

describe('InMemoryLockStore', () => {
  it.each(lockStoreContract)('$title [D155]', async ({ run }) => {
    const locks = new InMemoryLocks();
    const open = () => opened(new InMemoryLockStore(locks, LEASE_MS));
    await run({ a: await open(), b: await open() }, randomUUID());
  });
});

/** A store in which every acquire and release shares its command with others, of which one is refused. */
class CrowdedStore extends RedisLockStore {
  override acquire(command: AcquireCommand) {
    return this.#amongOthers(() => super.acquire(command));
  }

  override release(command: ReleaseCommand) {
    return this.#amongOthers(() => super.release(command));
  }

  override requeue(command: RequeueCommand) {
    return this.#amongOthers(() => super.requeue(command));
  }

  #amongOthers<T>(send: () => T): T {
    const token = `${this.processId}:${2 ** 40}`;
    const nowait = true;
    void super.acquire({ key: WRONG_TYPE, token, leaseMs: LEASE_MS, nowait });
    const reply = send();
    void super.release({ key: randomUUID(), token, used: 0 });
    return reply;
  }
}

const WRONG_TYPE = 'of-another-type';

describe.each([
  ['RESP2', 2, RedisLockStore],
  ['RESP3', 3, RedisLockStore],
  ['in batches', 3, CrowdedStore],
] as const)('RedisLockStore, %s', (_, protocol, Store) => {
  const redis = useRedis();
  let stores: ContractStores;

  beforeAll(async () => {
    const open = () => {
      const client = new Redis(redis.url, { protocol });
      const options = { client, clock: systemClock, keyPrefix: 'lock:', leaseMs: LEASE_MS };
      const closeClient = async (): Promise<void> => client.disconnect();
      return opened(new Store({ ...options, closeClient }));
    };
    stores = { a: await open(), b: await open() };
    const admin = new Redis(redis.url);
    await admin.hset(`lock:{${WRONG_TYPE}}`, 'a', 'b');
    admin.disconnect();
  });

  afterAll(() => Promise.all([stores.a.store.close(), stores.b.store.close()]));

  it.each(lockStoreContract)('$title [D155]', async ({ run }) => run(stores, randomUUID()));
});
