import { lockKey } from 'nestjs-locked';
import { withMutex } from '../stage/clients.js';
import { around } from '../stage/decorated.js';
import { migrationScenario } from '../stage/migration.js';
import { ourLocks } from '../stage/our-locks.js';
import { connect } from '../stage/redis.js';

export const scenario = migrationScenario({
  library: 'redis-semaphore',
  settings: 'A `Mutex` for each call, the defaults.',
  async locks(server) {
    const redis = await connect(server);
    const locks = await ourLocks(server);
    const inMutex = await ourLocks(server, { keyPrefix: 'mutex:' });
    const ours = around((work, id: string) => locks.withLock(lockKey`stock:${id}`, work));
    return {
      old: around((work, id: string) => withMutex(redis, `stock:${id}`, work)),
      around: ours,
      new: ours,
      oneKey: [
        around((work, id: string) => withMutex(redis, `{stock:${id}}`, work)),
        around((work, id: string) => inMutex.withLock(lockKey`stock:${id}`, work)),
      ],
    };
  },
});
