import { setTimeout as sleep } from 'node:timers/promises';
import type { Scenario } from '../scenario.js';
import { openRedlock } from '../stage/clients.js';
import { ourLocks } from '../stage/our-locks.js';
import { commandCount, connect, connectToHeld } from '../stage/redis.js';

const WAITERS = 100;
const WATCHED_MS = 2_000;

export const scenario: Scenario<() => Promise<unknown>> = {
  title: 'A hundred callers wait',
  workload: `${WAITERS} callers of one process wait for a key that is held. One command per waiter and second would be fair.`,
  async play(wait, server) {
    const redis = await connect(server);
    for (let i = 0; i < WAITERS; i += 1) void wait().catch(() => {});
    await sleep(500);
    const before = await commandCount(redis);
    await sleep(WATCHED_MS);
    const commands = (await commandCount(redis)) - before - 1;
    const perSecond = Math.round(commands / (WATCHED_MS / 1_000));
    return { holds: perSecond < WAITERS, figure: `${perSecond} commands/s`, words: '' };
  },
  peers: [
    {
      library: 'redis-semaphore',
      settings: 'The defaults (`retryInterval: 10`).',
      note: 'A longer `retryInterval` means less load and a later turn.',
      async open(server) {
        const { Mutex } = await import('redis-semaphore');
        const redis = await connectToHeld(server, 'mutex:stock:42');
        return () => new Mutex(redis, 'stock:42').acquire();
      },
    },
    {
      library: 'redlock',
      settings: 'Defaults (200 to 300 ms apart), `retryCount: -1`.',
      async open(server) {
        const redis = await connectToHeld(server, 'stock:42');
        const redlock = await openRedlock('redlock', [redis], { retryCount: -1 });
        return () => redlock.acquire(['stock:42'], 5_000);
      },
    },
  ],
  ours: {
    settings: 'The defaults.',
    async open(server) {
      const [holder, others] = [await ourLocks(server), await ourLocks(server)];
      await holder.acquire('stock:42');
      return () => others.acquire('stock:42');
    },
  },
};
