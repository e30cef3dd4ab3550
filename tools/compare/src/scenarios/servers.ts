import { LockService, RedisLockModule } from 'nestjs-locked';
import type { Scenario } from '../scenario.js';
import { openRedlock, type Redlock, type RedlockName, redlockSide } from '../stage/clients.js';
import { startApplication } from '../stage/decorated.js';
import { ourSide } from '../stage/our-locks.js';
import { connect, connectToHeld, RedisServer } from '../stage/redis.js';
import { inSeconds, settled } from '../stage/settled.js';

const LIMIT_MS = 10_000;

async function acquireOnTwo(
  library: RedlockName,
  server: RedisServer,
): Promise<() => Promise<unknown>> {
  const held = await connectToHeld(server, 'stock:42');
  const redlock = await openRedlock(library, [held, await connect(await RedisServer.start())]);
  return () => redlock.acquire(['stock:42'], 5_000);
}

export const evenNumberOfServers: Scenario<() => Promise<unknown>> = {
  title: 'Two servers, and the key is taken on one of them',
  workload: 'One of two servers grants the lock and one refuses it: there is no majority.',
  async play(acquire) {
    const result = await settled(acquire(), LIMIT_MS);
    if (result.state === 'pending') {
      return {
        holds: false,
        figure: `no answer in ${LIMIT_MS / 1_000} s`,
        words: 'The call neither succeeded nor failed: no vote had a majority.',
      };
    }
    return {
      holds: true,
      figure: `${result.state} after ${inSeconds(result.afterMs)}`,
      words: result.state === 'rejected' ? `"${result.error.message}"` : 'It was taken.',
    };
  },
  peers: [
    {
      library: 'redlock',
      settings:
        '`acquire` with the defaults (ten tries). Its README recommends an odd number of servers.',
      open: (server) => acquireOnTwo('redlock', server),
    },
    {
      library: '@sesamecare-oss/redlock',
      settings: '`acquire` with the defaults (ten tries).',
      open: (server) => acquireOnTwo('@sesamecare-oss/redlock', server),
    },
  ],
  ours: ourSide(
    { waitMs: 2_000 },
    async (locks, server) => {
      await connectToHeld(server, 'lock:{stock:42}');
      return () => locks.acquire('stock:42');
    },
    'The defaults, `waitMs: 2_000`. There is no quorum: the key is taken on its only server.',
  ),
};

const NUMBER = 1;

const acquireWith = (redlock: Redlock): Promise<unknown> => redlock.acquire(['stock:42'], 5_000);

export const databaseNumber: Scenario = {
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
    redlockSide('@sesamecare-oss/redlock', 'The defaults.', acquireWith, {
      db: NUMBER,
      note: 'Its own option `db`, by default 0, counts.',
    }),
    redlockSide('redlock', 'The defaults.', acquireWith, { db: NUMBER }),
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
