import { setTimeout as sleep } from 'node:timers/promises';
import type { Outcome, Scenario } from '../scenario.js';
import { ourLocks } from '../stage/our-locks.js';
import { connect, RedisServer } from '../stage/redis.js';

const LEASE_MS = 3_000;

/** Redis refuses to prolong keys until the first renewal has failed. */
async function refuseFirstRenewal(server: RedisServer): Promise<boolean> {
  const admin = await connect(server);
  await admin.acl('SETUSER', 'default', '-pexpire', '-pexpireat', '-set');
  const deadline = performance.now() + LEASE_MS * 0.9;
  let isRefused = false;
  while (!isRefused && performance.now() < deadline) {
    await sleep(10);
    isRefused = ((await admin.acl('LOG')) as unknown[]).length > 0;
  }
  await admin.acl('SETUSER', 'default', '+pexpire', '+pexpireat', '+set');
  return isRefused;
}

/** After two leases: whether the holder still has its lock. */
async function afterRefusal(
  server: RedisServer,
  key: string,
  isHeld: () => boolean = () => true,
): Promise<Outcome> {
  if (!(await refuseFirstRenewal(server))) throw new Error('No renewal was refused');
  await sleep(2 * LEASE_MS);
  const redis = await connect(server);
  const holds = (await redis.exists(key)) === 1 && isHeld();
  return {
    holds,
    figure: holds ? 'still held' : 'lost',
    words: holds
      ? 'The renewal was retried in time.'
      : 'The lock was given up while it was still valid.',
  };
}

export const scenario: Scenario = {
  title: 'One renewal fails',
  workload: `A lock of ${LEASE_MS / 1_000} s is held for longer. Redis refuses the first renewal and accepts the others.`,
  peers: [
    {
      library: 'redlock4',
      settings: '`extend` every second, with the defaults.',
      note: 'Fixed in 5.0.0-beta.',
      async run() {
        const { default: Redlock } = await import('redlock4');
        const server = await RedisServer.start();
        const redlock = new Redlock([await connect(server)]);
        redlock.on('clientError', () => {});
        const lock = await redlock.lock('stock:42', LEASE_MS);
        const renewal = setInterval(() => void lock.extend(LEASE_MS).catch(() => {}), 1_000);
        const outcome = await afterRefusal(server, 'stock:42');
        clearInterval(renewal);
        return outcome;
      },
    },
    {
      library: 'redis-semaphore',
      settings: '`Mutex` with an `onLockLost`, default refresh (at 0.8 of the lock).',
      async run() {
        const { Mutex } = await import('redis-semaphore');
        const server = await RedisServer.start();
        const mutex = new Mutex(await connect(server), 'stock:42', {
          lockTimeout: LEASE_MS,
          onLockLost: () => {},
        });
        await mutex.acquire();
        return afterRefusal(server, 'mutex:stock:42', () => mutex.isAcquired);
      },
    },
    {
      library: 'redlock-universal',
      settings: '`using` with the defaults.',
      async run() {
        const { createLock, IoredisAdapter } = await import('redlock-universal');
        const server = await RedisServer.start();
        const adapter = new IoredisAdapter(await connect(server));
        const lock = createLock({ adapter, key: 'stock:42', ttl: LEASE_MS });
        const signal = await new Promise<{ aborted: boolean }>((resolve) => {
          void lock.using(async (held) => {
            resolve(held);
            await sleep(60_000);
          });
        });
        return afterRefusal(server, 'stock:42', () => !signal.aborted);
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
        return afterRefusal(server, 'stock:42');
      },
    },
  ],
  ours: {
    settings: `\`leaseMs: ${LEASE_MS}\`.`,
    async run() {
      const server = await RedisServer.start();
      const lock = await (await ourLocks(server, { leaseMs: LEASE_MS })).acquire('stock:42');
      return afterRefusal(server, 'lock:{stock:42}', () => lock.isHeld);
    },
  },
};
