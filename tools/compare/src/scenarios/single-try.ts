import type { Scenario } from '../scenario.js';
import { ourLocks } from '../stage/our-locks.js';
import { connect, connectToHeld, scriptCount } from '../stage/redis.js';

/** How often Redis was asked by a call that is to ask once. */
export const scenario: Scenario<() => Promise<unknown>> = {
  title: 'One try and no more',
  workload: 'A single try for a key that is taken.',
  async play(attempt, server) {
    const redis = await connect(server);
    const before = await scriptCount(redis);
    const from = performance.now();
    await attempt().catch(() => {});
    const ms = Math.round(performance.now() - from);
    const attempts = (await scriptCount(redis)) - before;
    const holds = attempts <= 2; // the first use of a script may have to send it once more
    return {
      holds,
      figure: `${attempts} ${attempts === 1 ? 'script' : 'scripts'} in ${ms} ms`,
      words: holds ? 'It asked once.' : 'It kept asking.',
    };
  },
  peers: [
    {
      library: 'redlock4',
      settings: '`retryCount: 0` for the call; `retryDelay: 50` for all.',
      note: 'Fixed in 5.0.0-beta. With `retryCount: 0` in the constructor, version 4 also asks once.',
      async open(server) {
        const { default: Redlock } = await import('redlock4');
        const redis = await connectToHeld(server, 'stock:42');
        const redlock = new Redlock([redis], { retryDelay: 50 });
        return () => redlock.lock('stock:42', 5_000, { retryCount: 0 });
      },
    },
  ],
  ours: {
    settings: '`tryAcquire`.',
    async open(server) {
      await connectToHeld(server, 'lock:{stock:42}');
      const locks = await ourLocks(server);
      return () => locks.tryAcquire('stock:42');
    },
  },
};
