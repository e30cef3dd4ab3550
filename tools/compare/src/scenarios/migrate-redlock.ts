import { lockKey } from 'nestjs-locked';
import { openRedlock } from '../stage/clients.js';
import { around } from '../stage/decorated.js';
import { migrationScenario } from '../stage/migration.js';
import { ourLocks } from '../stage/our-locks.js';
import { connect } from '../stage/redis.js';

export const scenario = migrationScenario({
  library: 'redlock',
  settings: '`using` with the defaults and 5 s.',
  async locks(server) {
    const redlock = await openRedlock('redlock', [await connect(server)]);
    const locks = await ourLocks(server);
    const ours = around((work, id: string) => locks.withLock(lockKey`stock:${id}`, work));
    return {
      old: around((work, id: string) => redlock.using([`stock:${id}`], 5_000, work)),
      around: ours,
      new: ours,
      oneKey: [
        around((work, id: string) => redlock.using([`lock:{stock:${id}}`], 5_000, work)),
        ours,
      ],
    };
  },
});
