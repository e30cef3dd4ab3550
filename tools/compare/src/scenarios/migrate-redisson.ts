import { lockKey } from 'nestjs-locked';
import { openRedisson } from '../stage/clients.js';
import { around } from '../stage/decorated.js';
import { migrationScenario } from '../stage/migration.js';
import { ourLocks } from '../stage/our-locks.js';

/** Redisson itself runs on Java. This port of it writes the same hash and runs the same scripts. */
export const scenario = migrationScenario({
  library: 'node-redisson',
  settings: '`lock()` with the defaults.',
  async locks(server) {
    const { TimeUnit } = await import('node-redisson');
    const redisson = await openRedisson(server);
    const locks = await ourLocks(server);
    const ours = around((work, id: string) => locks.withLock(lockKey`stock:${id}`, work));
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
      around: ours,
      new: ours,
      // A hash and a string: each refuses the key while it is the other one's.
      oneKey: [around((work, id: string) => withRLock(`lock:{stock:${id}}`, work)), ours],
    };
  },
});
