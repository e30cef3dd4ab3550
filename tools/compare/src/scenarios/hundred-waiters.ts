import { setTimeout as sleep } from 'node:timers/promises';
import type { Outcome, Scenario } from '../scenario.js';
import { ourLocks } from '../stage/our-locks.js';
import { commandCount, connect, RedisServer } from '../stage/redis.js';

const WAITERS = 100;
const WATCHED_MS = 2_000;

async function loadOf(server: RedisServer, wait: () => Promise<unknown>): Promise<Outcome> {
  const redis = await connect(server);
  for (let i = 0; i < WAITERS; i += 1) void wait().catch(() => {});
  await sleep(500);
  const before = await commandCount(redis);
  await sleep(WATCHED_MS);
  const perSecond = Math.round(((await commandCount(redis)) - before - 1) / (WATCHED_MS / 1_000));
  return {
    holds: perSecond < WAITERS,
    figure: `${perSecond} commands/s`,
    words: '',
  };
}

export const scenario: Scenario = {
  title: 'A hundred callers wait',
  workload: `${WAITERS} callers of one process wait for a key that is held. One command per waiter and second would be fair.`,
  peers: [
    {
      library: 'redis-semaphore',
      settings: 'The defaults (`retryInterval: 10`).',
      note: 'A longer `retryInterval` means less load and a later turn.',
      async run() {
        const { Mutex } = await import('redis-semaphore');
        const server = await RedisServer.start();
        const redis = await connect(server);
        await redis.set('mutex:stock:42', 'somebody', 'PX', 60_000);
        return loadOf(server, () => new Mutex(redis, 'stock:42').acquire());
      },
    },
    {
      library: 'redlock',
      settings: 'Defaults (200 to 300 ms apart), `retryCount: -1`.',
      async run() {
        const { default: Redlock } = await import('redlock');
        const server = await RedisServer.start();
        const redis = await connect(server);
        await redis.set('stock:42', 'somebody', 'PX', 60_000);
        const redlock = new Redlock([redis as never], { retryCount: -1 });
        redlock.on('error', () => {});
        return loadOf(server, () => redlock.acquire(['stock:42'], 5_000));
      },
    },
  ],
  ours: {
    settings: 'The defaults.',
    async run() {
      const server = await RedisServer.start();
      const [holder, others] = [await ourLocks(server), await ourLocks(server)];
      await holder.acquire('stock:42');
      return loadOf(server, () => others.acquire('stock:42'));
    },
  },
};
