import { setTimeout as sleep } from 'node:timers/promises';
import type { Scenario } from '../scenario.js';
import { openRedlock } from '../stage/clients.js';
import { ourLocks } from '../stage/our-locks.js';
import { connect, scriptCount } from '../stage/redis.js';

const LEASE_MS = 1_000;

export const scenario: Scenario = {
  title: 'Redis refuses every renewal',
  workload: `Redis refuses every renewal of a lock of ${LEASE_MS} ms. Scripts until the lease ends:`,
  async play(_, server) {
    const admin = await connect(server);
    await admin.acl('SETUSER', 'default', '-pexpire', '-pexpireat', '-set');
    await sleep(1.5 * LEASE_MS);
    const scripts = await scriptCount(admin);
    return { holds: scripts < 100, figure: `${scripts} scripts`, words: '' };
  },
  peers: [
    {
      library: 'redlock',
      settings: '`using` with `retryCount: 0`, which its README offers for a single try.',
      note: 'With the default of ten retries, it pauses.',
      async open(server) {
        const redlock = await openRedlock('redlock', [await connect(server)], { retryCount: 0 });
        redlock.using(['stock:42'], LEASE_MS, () => sleep(60_000)).catch(() => {});
        await sleep(50);
      },
    },
  ],
  ours: {
    settings: `\`leaseMs: ${LEASE_MS}\`, \`waitMs: 0\`.`,
    async open(server) {
      const locks = await ourLocks(server, { leaseMs: LEASE_MS, waitMs: 0 });
      await locks.acquire('stock:42');
    },
  },
};
