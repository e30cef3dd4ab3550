import { LockService, RedisLockModule } from 'nestjs-locked';
import type { Outcome, Scenario } from '../scenario.js';
import { startApplication } from '../stage/application.js';
import { connect, RedisServer } from '../stage/redis.js';

const NUMBER = 1;

async function whereIsIt(server: RedisServer): Promise<Outcome> {
  const databases = [0, NUMBER];
  const sizes = await Promise.all(
    databases.map(async (db) => (await connect(server, { db })).dbsize()),
  );
  const holds = sizes[0] === 0 && sizes[1] !== 0;
  return {
    holds,
    figure: `in database ${databases.filter((_, i) => sizes[i] !== 0).join(' and ')}`,
    words: '',
  };
}

export const scenario: Scenario = {
  title: 'A client on database 1',
  workload: 'A lock is taken with a client whose `db` is 1.',
  peers: [
    {
      library: '@sesamecare-oss/redlock',
      settings: 'The defaults.',
      note: 'Its own option `db`, by default 0, counts.',
      async run() {
        const { Redlock } = await import('@sesamecare-oss/redlock');
        const server = await RedisServer.start();
        const redlock = new Redlock([await connect(server, { db: NUMBER })]);
        await redlock.acquire(['stock:42'], 5_000);
        return whereIsIt(server);
      },
    },
    {
      library: 'redlock',
      settings: 'The defaults.',
      async run() {
        const { default: Redlock } = await import('redlock');
        const server = await RedisServer.start();
        const redlock = new Redlock([(await connect(server, { db: NUMBER })) as never]);
        await redlock.acquire(['stock:42'], 5_000);
        return whereIsIt(server);
      },
    },
  ],
  ours: {
    settings: 'The defaults.',
    async run() {
      const server = await RedisServer.start();
      const connection = await connect(server, { db: NUMBER });
      const app = await startApplication({ imports: [RedisLockModule.forRoot({ connection })] });
      await app.get(LockService).acquire('stock:42');
      return whereIsIt(server);
    },
  },
};
