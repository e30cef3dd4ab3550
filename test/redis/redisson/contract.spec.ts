import { afterAll, beforeAll, describe, it } from '@jest/globals';
import { Redis } from 'ioredis';
import { randomUUID } from 'node:crypto';
import type { StoreMessage } from '../../../libs/nestjs-locked/src/core/store/lock-store.js';
import { systemClock } from '../../../libs/nestjs-locked/src/core/time/clock.js';
import { RedissonLockStore } from '../../../libs/nestjs-locked/src/redis/redisson/redisson-lock-store.js';
import {
  type ContractStore,
  type ContractStores,
  lockStoreContract,
} from '../../support/lock-store-contract.js';
import { useRedis } from '../../support/shared-redis.js';

const LEASE_MS = 2_000;

/** The rules that need no queue, readers, permits, labels or hand-off, which Redisson does not have. */
const RULES: ReadonlySet<string> = new Set([
  'a lease ends on its own, and nothing extends one that has ended',
  'release() hands over to the first waiter, with a short lease that it can confirm',
  'fencing tokens rise with every lease, above all that were used',
  'fencing tokens rise above the whole block of a holder that ended without a report',
  'recheck() takes a lock that has become free',
  'takeBack() gives up the position, and passes a grant that crosses it on to the next',
  'leave() as a last try takes its own lock, or a free one',
  'renew() and takeBack() answer for each of many keys, whatever happens to the others',
  'release() with keepMs keeps the key taken without a holder',
  'takeBack() with keepMs keeps a key that is free by now, and does not touch the lease of another',
  'renew() reserves above the used numbers, even when they exceed the stored one',
  'acquireTogether() asked again grants the same tokens, or none if one was lost',
  'revoke() takes the key away and tells the holder',
  'revoke() takes the key from the holder that is meant, and from no other',
  'inspect() shows neither holder nor time of a key that is only kept',
  'a question reaches the process that has the key, and its answer the one that asks',
  'adopt() gives no lease that has ended, was released or taken away, or is of another token',
]);
const contract = lockStoreContract.filter(({ title }) => RULES.has(title));
if (contract.length !== RULES.size) throw new Error('a rule has another title now');

describe.each([2, 3] as const)('RedissonLockStore, RESP%s', (protocol) => {
  const redis = useRedis();
  let stores: ContractStores;

  beforeAll(async () => {
    const open = async (): Promise<ContractStore> => {
      const client = new Redis(redis.url, { protocol });
      const options = { client, clock: systemClock, keyPrefix: 'lock:', leaseMs: LEASE_MS };
      const store = new RedissonLockStore({
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

  it.each(contract)('$title [D155]', async ({ run }) => run(stores, randomUUID()));
});
