import { setTimeout as sleep } from 'node:timers/promises';
import type { Outcome, Scenario } from '../scenario.js';
import { ourLocks } from '../stage/our-locks.js';
import { connect, RedisServer } from '../stage/redis.js';

const LEASE_MS = 1_000;

/** How many scripts Redis has to refuse in the last half of a lease. */
async function refusals(server: RedisServer): Promise<Outcome> {
  const admin = await connect(server);
  await admin.acl('SETUSER', 'default', '-pexpire', '-pexpireat', '-set');
  await sleep(1.5 * LEASE_MS);
  const stats = await admin.info('commandstats');
  const calls = [...stats.matchAll(/cmdstat_(?:eval|evalsha):calls=(\d+)/g)];
  const scripts = calls.reduce((sum, [, count]) => sum + Number(count), 0);
  return {
    holds: scripts < 100,
    figure: `${scripts} scripts`,
    words: '',
  };
}

export const scenario: Scenario = {
  title: 'Redis refuses every renewal',
  workload: `Redis refuses every renewal of a lock of ${LEASE_MS} ms. Scripts until the lease ends:`,
  peers: [
    {
      library: 'redlock',
      settings: '`using` with `retryCount: 0`, which its README offers for a single try.',
      note: 'With the default of ten retries, it pauses.',
      async run() {
        const { default: Redlock } = await import('redlock');
        const server = await RedisServer.start();
        const redlock = new Redlock([(await connect(server)) as never], { retryCount: 0 });
        redlock.on('error', () => {});
        const work = redlock.using(['stock:42'], LEASE_MS, async () => void (await sleep(60_000)));
        work.catch(() => {});
        await sleep(50);
        return refusals(server);
      },
    },
  ],
  ours: {
    settings: `\`leaseMs: ${LEASE_MS}\`, \`waitMs: 0\`.`,
    async run() {
      const server = await RedisServer.start();
      const locks = await ourLocks(server, { leaseMs: LEASE_MS, waitMs: 0 });
      await locks.acquire('stock:42');
      return refusals(server);
    },
  },
};
