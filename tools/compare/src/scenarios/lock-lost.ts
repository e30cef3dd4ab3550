import { setTimeout as sleep } from 'node:timers/promises';
import type { Outcome, Scenario } from '../scenario.js';
import { ourLocks } from '../stage/our-locks.js';
import { connect, RedisServer } from '../stage/redis.js';

const LEASE_MS = 1_000;

async function loseLock(server: RedisServer, isTold: () => boolean): Promise<Outcome> {
  await (await connect(server)).flushall();
  await sleep(2 * LEASE_MS);
  return {
    holds: isTold(),
    figure: isTold() ? 'the holder is told' : 'nobody is told',
    words: isTold() ? 'The process lives, and its code can check.' : 'The holder is not told.',
  };
}

export const scenario: Scenario = {
  title: 'The lock is lost while it is held',
  workload: `The key of a lock of ${LEASE_MS} ms is deleted while it is held, as by a failover.`,
  peers: [
    {
      library: 'redis-semaphore',
      settings: '`Mutex` with the defaults.',
      note: 'As its README says; an `onLockLost` of your own is called instead.',
      async run() {
        const { Mutex } = await import('redis-semaphore');
        const server = await RedisServer.start();
        const mutex = new Mutex(await connect(server), 'stock:42', { lockTimeout: LEASE_MS });
        await mutex.acquire();
        return loseLock(server, () => !mutex.isAcquired);
      },
    },
    {
      library: 'node-redisson',
      settings: '`lock()` with a watchdog of the same time.',
      async run() {
        const { Redisson } = await import('node-redisson');
        const server = await RedisServer.start();
        const redisson = new Redisson({
          redis: { options: { host: '127.0.0.1', port: server.port } },
          lockWatchdogTimeout: BigInt(LEASE_MS),
        });
        await redisson.getLock('stock:42').lock();
        return loseLock(server, () => false); // it has nothing that could tell
      },
    },
  ],
  ours: {
    settings: `\`leaseMs: ${LEASE_MS}\`.`,
    async run() {
      const server = await RedisServer.start();
      const lock = await (await ourLocks(server, { leaseMs: LEASE_MS })).acquire('stock:42');
      return loseLock(server, () => lock.signal.aborted && !lock.isHeld);
    },
  },
};
