import { setTimeout as sleep } from 'node:timers/promises';
import type { Scenario } from '../scenario.js';
import { openUniversal } from '../stage/clients.js';
import { ourLocks } from '../stage/our-locks.js';
import { commandCount, connect } from '../stage/redis.js';

const LEASE_MS = 1_000;
const WORK_MS = 500;

export const scenario: Scenario<(work: () => Promise<void>) => Promise<void>> = {
  title: 'A lease of one second',
  workload: `A lock of ${LEASE_MS} ms with automatic renewal, and work of ${WORK_MS} ms. All commands in Redis count, also in scripts.`,
  async play(using, server) {
    const redis = await connect(server);
    const before = await commandCount(redis);
    await using(() => sleep(WORK_MS));
    const commands = (await commandCount(redis)) - before - 1;
    return { holds: commands < 50, figure: `${commands} commands`, words: '' };
  },
  peers: [
    {
      library: 'redlock-universal',
      settings: '`using` with the defaults.',
      note: 'Leases from about 1.3 s are renewed at 80 %.',
      async open(server) {
        const lock = await openUniversal(server, LEASE_MS);
        return (work) => lock.using(work);
      },
    },
  ],
  ours: {
    settings: `\`leaseMs: ${LEASE_MS}\`.`,
    async open(server) {
      const locks = await ourLocks(server, { leaseMs: LEASE_MS });
      return (work) => locks.withLock('stock:42', work);
    },
  },
};
