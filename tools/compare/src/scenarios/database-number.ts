import { LockService, RedisLockModule } from 'nestjs-locked';
import type { PeerSide, Scenario } from '../scenario.js';
import { openRedlock, type RedlockName } from '../stage/clients.js';
import { startApplication } from '../stage/decorated.js';
import { connect } from '../stage/redis.js';

const NUMBER = 1;

export const scenario: Scenario = {
  title: 'A client on database 1',
  workload: 'A lock is taken with a client whose `db` is 1.',
  async play(_, server) {
    const databases = [0, NUMBER];
    const sizes = await Promise.all(
      databases.map(async (db) => (await connect(server, { db })).dbsize()),
    );
    return {
      holds: sizes[0] === 0 && sizes[1] !== 0,
      figure: `in database ${databases.filter((_, i) => sizes[i] !== 0).join(' and ')}`,
      words: '',
    };
  },
  peers: [
    redlock('@sesamecare-oss/redlock', 'Its own option `db`, by default 0, counts.'),
    redlock('redlock'),
  ],
  ours: {
    settings: 'The defaults.',
    async open(server) {
      const connection = await connect(server, { db: NUMBER });
      const app = await startApplication({ imports: [RedisLockModule.forRoot({ connection })] });
      return app.get(LockService).acquire('stock:42');
    },
  },
};

function redlock(library: RedlockName, note?: string): PeerSide<unknown> {
  return {
    library,
    settings: 'The defaults.',
    note,
    async open(server) {
      const opened = await openRedlock(library, [await connect(server, { db: NUMBER })]);
      return opened.acquire(['stock:42'], 5_000);
    },
  };
}
