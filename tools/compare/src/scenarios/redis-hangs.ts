import type { Scenario } from '../scenario.js';
import { LEASE_MS, watchHolder } from '../stage/hanging-redis.js';
import { ourLocks } from '../stage/our-locks.js';
import { connect, RedisServer } from '../stage/redis.js';

const NEVER = new Promise<never>(() => {});

export const scenario: Scenario = {
  title: 'Redis hangs while the lock is held',
  workload: `A lock with a lease of ${LEASE_MS / 1_000} s and automatic renewal; Redis is stopped (SIGSTOP) after 100 ms.`,
  peers: [
    {
      library: 'redlock',
      settings: '`using` with the defaults; its README tells the routine to check the AbortSignal.',
      async run() {
        const { default: Redlock } = await import('redlock');
        const server = await RedisServer.start();
        const redlock = new Redlock([(await connect(server)) as never]);
        redlock.on('error', () => {});
        const signal = await new Promise<{ aborted: boolean }>((resolve) => {
          void redlock.using(['stock:42'], LEASE_MS, async (held) => {
            resolve(held);
            await NEVER;
          });
        });
        return watchHolder(server, () => signal.aborted);
      },
    },
    {
      library: '@sesamecare-oss/redlock',
      settings: '`using` with the defaults.',
      async run() {
        const { Redlock } = await import('@sesamecare-oss/redlock');
        const server = await RedisServer.start();
        const redlock = new Redlock([await connect(server)]);
        redlock.on('error', () => {});
        const signal = await new Promise<{ aborted: boolean }>((resolve) => {
          void redlock.using(['stock:42'], LEASE_MS, async (held) => {
            resolve(held);
            await NEVER;
          });
        });
        return watchHolder(server, () => signal.aborted);
      },
    },
    {
      library: 'redis-semaphore',
      settings: '`Mutex` with an `onLockLost`, and `isAcquired`, which its README checks.',
      async run() {
        const { Mutex } = await import('redis-semaphore');
        const server = await RedisServer.start();
        let isLost = false;
        const mutex = new Mutex(await connect(server), 'stock:42', {
          lockTimeout: LEASE_MS,
          onLockLost: () => (isLost = true),
        });
        await mutex.acquire();
        return watchHolder(server, () => isLost || !mutex.isAcquired);
      },
    },
    {
      library: 'redlock-universal',
      settings: '`using` with the defaults (each command has 5 s).',
      async run() {
        const { createLock, IoredisAdapter } = await import('redlock-universal');
        const server = await RedisServer.start();
        const adapter = new IoredisAdapter(await connect(server));
        const lock = createLock({ adapter, key: 'stock:42', ttl: LEASE_MS });
        const signal = await new Promise<{ aborted: boolean }>((resolve) => {
          void lock.using(async (held) => {
            resolve(held);
            await NEVER;
          });
        });
        return watchHolder(server, () => signal.aborted);
      },
    },
  ],
  ours: {
    settings: `\`leaseMs: ${LEASE_MS}\`.`,
    async run() {
      const server = await RedisServer.start();
      const lock = await (await ourLocks(server, { leaseMs: LEASE_MS })).acquire('stock:42');
      return watchHolder(server, () => lock.signal.aborted);
    },
  },
};
