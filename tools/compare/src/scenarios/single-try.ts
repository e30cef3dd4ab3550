import type { Outcome, Scenario } from '../scenario.js';
import { ourLocks } from '../stage/our-locks.js';
import { connect, RedisServer } from '../stage/redis.js';

/** How often Redis was asked by a call that is to ask once. */
async function singleTry(server: RedisServer, attempt: () => Promise<unknown>): Promise<Outcome> {
  const redis = await connect(server);
  const scripts = async (): Promise<number> => {
    const stats = await redis.info('commandstats');
    const calls = [...stats.matchAll(/cmdstat_(?:eval|evalsha):calls=(\d+)/g)];
    return calls.reduce((sum, [, count]) => sum + Number(count), 0);
  };
  const before = await scripts();
  const from = performance.now();
  await attempt().catch(() => {});
  const ms = Math.round(performance.now() - from);
  const attempts = (await scripts()) - before;
  return {
    // The first use of a script may have to send it once more.
    holds: attempts <= 2,
    figure: `${attempts} ${attempts === 1 ? 'script' : 'scripts'} in ${ms} ms`,
    words: attempts <= 2 ? 'It asked once.' : 'It kept asking.',
  };
}

export const scenario: Scenario = {
  title: 'One try and no more',
  workload: 'A single try for a key that is taken.',
  peers: [
    {
      library: 'redlock4',
      settings: '`retryCount: 0` for the call; `retryDelay: 50` for all.',
      note: 'Fixed in 5.0.0-beta. With `retryCount: 0` in the constructor, version 4 also asks once.',
      async run() {
        const { default: Redlock } = await import('redlock4');
        const server = await RedisServer.start();
        const redis = await connect(server);
        await redis.set('stock:42', 'somebody', 'PX', 60_000);
        const redlock = new Redlock([redis], { retryDelay: 50 });
        return singleTry(server, () => redlock.lock('stock:42', 5_000, { retryCount: 0 }));
      },
    },
  ],
  ours: {
    settings: '`tryAcquire`.',
    async run() {
      const server = await RedisServer.start();
      const redis = await connect(server);
      await redis.set('lock:{stock:42}', 'somebody', 'PX', 60_000);
      const locks = await ourLocks(server);
      return singleTry(server, () => locks.tryAcquire('stock:42'));
    },
  },
};
