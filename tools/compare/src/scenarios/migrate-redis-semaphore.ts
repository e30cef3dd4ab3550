import type { Redis } from 'ioredis';
import { lockKey } from 'nestjs-locked';
import { type Instance, migrationScenario } from '../stage/migration.js';
import { ourLocks } from '../stage/our-locks.js';
import { connect } from '../stage/redis.js';

const id = '42';

export const scenario = migrationScenario({
  library: 'redis-semaphore',
  settings: 'A `Mutex` for each call, the defaults.',

  async old(server) {
    const redis = await connect(server);
    return (work) => withMutex(redis, `stock:${id}`, work);
  },

  async both(server) {
    const redis = await connect(server);
    const locks = await ourLocks(server);
    return (work) =>
      locks.withLock(lockKey`stock:${id}`, () => withMutex(redis, `stock:${id}`, work));
  },

  async after(server) {
    const locks = await ourLocks(server);
    return (work) => locks.withLock(lockKey`stock:${id}`, work);
  },

  async oneKey(server) {
    const redis = await connect(server);
    const locks = await ourLocks(server, { keyPrefix: 'mutex:' });
    const theirs: Instance = (work) => withMutex(redis, `{stock:${id}}`, work);
    return [theirs, (work) => locks.withLock(lockKey`stock:${id}`, work)];
  },
});

async function withMutex(redis: Redis, key: string, work: () => Promise<void>): Promise<void> {
  const { Mutex } = await import('redis-semaphore');
  const mutex = new Mutex(redis, key);
  await mutex.acquire();
  try {
    await work();
  } finally {
    await mutex.release();
  }
}
