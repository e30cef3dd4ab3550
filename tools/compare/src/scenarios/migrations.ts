import { Locked, lockKey, type LockService } from 'nestjs-locked';
import { openRedisson, openRedlock, withMutex } from '../stage/clients.js';
import { around, type LockDecorator, startApplication } from '../stage/decorated.js';
import { migrationScenario } from '../stage/migration.js';
import { murlock, nestjsRedis, universal } from '../stage/nest-peers.js';
import { ourLocks } from '../stage/our-locks.js';
import { connect } from '../stage/redis.js';

export const migrateMurlock = migrationScenario({
  ...murlock,
  async locks(server) {
    const { MurLock, MurLockService } = await murlock.load();
    const app = await startApplication({ imports: [await murlock.module(server)] });
    const service = app.get(MurLockService);
    return {
      old: MurLock(5000, 'id'),
      around: Locked('stock:<0>'),
      new: Locked('stock:<id>'),
      onOurKey: around((work) => service.runWithLock('lock:{stock:42}', 5_000, work)),
    };
  },
});

export const migrateNestjsRedisLock = migrationScenario({
  ...nestjsRedis,
  async locks() {
    const { Redlock } = await nestjsRedis.load();
    return {
      old: Redlock('stock', 5000),
      new: Locked('stock'),
      onOurKey: Redlock('lock:{stock}', 5000),
    };
  },
});

export const migrateNestjsRedlockUniversal = migrationScenario({
  ...universal,
  async locks() {
    const { Redlock } = await universal.load();
    return {
      old: Redlock({ key: (id: string) => `stock:${id}` }),
      around: Locked('stock:<0>'),
      new: Locked('stock:<id>'),
      onOurKey: Redlock({ key: (id: string) => `lock:{stock:${id}}` }),
    };
  },
});

export const migrateRedlock = migrationScenario({
  library: 'redlock',
  settings: '`using` with the defaults and 5 s.',
  async locks(server) {
    const redlock = await openRedlock('redlock', [await connect(server)]);
    return {
      old: around((work, id: string) => redlock.using([`stock:${id}`], 5_000, work)),
      new: withLock(await ourLocks(server)),
      onOurKey: around((work, id: string) => redlock.using([`lock:{stock:${id}}`], 5_000, work)),
    };
  },
});

export const migrateRedisSemaphore = migrationScenario({
  library: 'redis-semaphore',
  settings: 'A `Mutex` for each call, the defaults.',
  async locks(server) {
    const redis = await connect(server);
    return {
      old: around((work, id: string) => withMutex(redis, `stock:${id}`, work)),
      new: withLock(await ourLocks(server)),
      // Its prefix cannot be changed, so ours is.
      onOurKey: around((work, id: string) => withMutex(redis, `{stock:${id}}`, work)),
      newOnOneKey: withLock(await ourLocks(server, { keyPrefix: 'mutex:' })),
    };
  },
});

/** Redisson itself runs on Java. This port of it writes the same hash and runs the same scripts. */
export const migrateRedisson = migrationScenario({
  library: 'node-redisson',
  settings: '`lock()` with the defaults.',
  async locks(server) {
    const { TimeUnit } = await import('node-redisson');
    const redisson = await openRedisson(server);
    const withRLock = async (name: string, work: () => Promise<void>): Promise<void> => {
      const lock = redisson.getLock(name);
      if (!(await lock.tryLock(1_000, true, TimeUnit.MILLISECONDS))) throw new Error('busy');
      try {
        await work();
      } finally {
        await lock.unlock();
      }
    };
    return {
      old: around((work, id: string) => withRLock(`stock:${id}`, work)),
      new: withLock(await ourLocks(server)),
      // A hash and a string: each refuses the key while it is the other one's.
      onOurKey: around((work, id: string) => withRLock(`lock:{stock:${id}}`, work)),
    };
  },
});

function withLock(locks: LockService): LockDecorator {
  return around((work, id: string) => locks.withLock(lockKey`stock:${id}`, work));
}
