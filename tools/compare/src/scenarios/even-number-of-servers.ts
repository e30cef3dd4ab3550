import type { Outcome, Scenario } from '../scenario.js';
import { ourLocks } from '../stage/our-locks.js';
import { connect, RedisServer } from '../stage/redis.js';
import { settled } from '../stage/settled.js';

const LIMIT_MS = 10_000;

async function outcomeOf(acquire: Promise<unknown>): Promise<Outcome> {
  const result = await settled(acquire, LIMIT_MS);
  if (result.state === 'pending') {
    return {
      holds: false,
      figure: `no answer in ${LIMIT_MS / 1_000} s`,
      words: 'The call neither succeeded nor failed: no vote had a majority.',
    };
  }
  const seconds = (result.afterMs / 1_000).toFixed(1);
  const words = result.state === 'rejected' ? `"${result.error.message}"` : 'It was taken.';
  return { holds: true, figure: `${result.state} after ${seconds} s`, words };
}

export const scenario: Scenario = {
  title: 'Two servers, and the key is taken on one of them',
  workload: 'One of two servers grants the lock and one refuses it: there is no majority.',
  peers: [
    {
      library: 'redlock',
      settings:
        '`acquire` with the defaults (ten tries). Its README recommends an odd number of servers.',
      async run() {
        const { default: Redlock } = await import('redlock');
        const clients = await Promise.all(
          [1, 2].map(async () => connect(await RedisServer.start())),
        );
        await clients[0]?.set('stock:42', 'somebody', 'PX', 60_000);
        const redlock = new Redlock(clients as never[]);
        redlock.on('error', () => {});
        return outcomeOf(redlock.acquire(['stock:42'], 5_000));
      },
    },
    {
      library: '@sesamecare-oss/redlock',
      settings: '`acquire` with the defaults (ten tries).',
      async run() {
        const { Redlock } = await import('@sesamecare-oss/redlock');
        const clients = await Promise.all(
          [1, 2].map(async () => connect(await RedisServer.start())),
        );
        await clients[0]?.set('stock:42', 'somebody', 'PX', 60_000);
        const redlock = new Redlock(clients);
        redlock.on('error', () => {});
        return outcomeOf(redlock.acquire(['stock:42'], 5_000));
      },
    },
  ],
  ours: {
    settings:
      'The defaults, `waitMs: 2_000`. There is no quorum: the key is taken on its only server.',
    async run() {
      const server = await RedisServer.start();
      const redis = await connect(server);
      await redis.set('lock:{stock:42}', 'somebody', 'PX', 60_000);
      const locks = await ourLocks(server, { waitMs: 2_000 });
      return outcomeOf(locks.acquire('stock:42'));
    },
  },
};
