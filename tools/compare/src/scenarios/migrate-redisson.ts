import { lockKey } from 'nestjs-locked';
import { type Instance, migrationScenario } from '../stage/migration.js';
import { ourLocks } from '../stage/our-locks.js';
import type { RedisServer } from '../stage/redis.js';

const id = '42';

/** Redisson itself runs on Java. This port of it writes the same hash and runs the same scripts. */
export const scenario = migrationScenario({
  library: 'node-redisson',
  settings: '`lock()` with the defaults.',

  async old(server) {
    return withRLock(server, `stock:${id}`);
  },

  async both(server) {
    const old = await withRLock(server, `stock:${id}`);
    const locks = await ourLocks(server);
    return (work) => locks.withLock(lockKey`stock:${id}`, () => old(work));
  },

  async after(server) {
    const locks = await ourLocks(server);
    return (work) => locks.withLock(lockKey`stock:${id}`, work);
  },

  // A hash and a string: each refuses the key while it is the other one's.
  async oneKey(server) {
    return [await withRLock(server, `lock:{stock:${id}}`), await this.after(server)];
  },
});

async function withRLock(server: RedisServer, name: string): Promise<Instance> {
  const { Redisson, TimeUnit } = await import('node-redisson');
  const { port } = server;
  const redisson = new Redisson({ redis: { options: { host: '127.0.0.1', port } } });
  return async (work) => {
    const lock = redisson.getLock(name);
    if (!(await lock.tryLock(1_000, true, TimeUnit.MILLISECONDS))) throw new Error('busy');
    try {
      await work();
    } finally {
      await lock.unlock();
    }
  };
}
