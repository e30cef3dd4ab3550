import { setTimeout as sleep } from 'node:timers/promises';
import type { Outcome, Scenario } from '../scenario.js';
import { ourLocks } from '../stage/our-locks.js';
import { commandCount, connect, RedisServer } from '../stage/redis.js';

const LEASE_MS = 1_000;
const WORK_MS = 500;

async function commandsOf(server: RedisServer, call: () => Promise<void>): Promise<Outcome> {
  const redis = await connect(server);
  const before = await commandCount(redis);
  await call();
  const commands = (await commandCount(redis)) - before - 1;
  return {
    holds: commands < 50,
    figure: `${commands} commands`,
    words: '',
  };
}

export const scenario: Scenario = {
  title: 'A lease of one second',
  workload: `A lock of ${LEASE_MS} ms with automatic renewal, and work of ${WORK_MS} ms. All commands in Redis count, also in scripts.`,
  peers: [
    {
      library: 'redlock-universal',
      settings: '`using` with the defaults.',
      note: 'Leases from about 1.3 s are renewed at 80 %.',
      async run() {
        const { createLock, IoredisAdapter } = await import('redlock-universal');
        const server = await RedisServer.start();
        const adapter = new IoredisAdapter(await connect(server));
        const lock = createLock({ adapter, key: 'stock:42', ttl: LEASE_MS });
        return commandsOf(server, () => lock.using(async () => void (await sleep(WORK_MS))));
      },
    },
  ],
  ours: {
    settings: `\`leaseMs: ${LEASE_MS}\`.`,
    async run() {
      const server = await RedisServer.start();
      const locks = await ourLocks(server, { leaseMs: LEASE_MS });
      return commandsOf(server, () =>
        locks.withLock('stock:42', async () => void (await sleep(WORK_MS))),
      );
    },
  },
};
