import { setTimeout as sleep } from 'node:timers/promises';
import type { Scenario } from '../scenario.js';
import { type Held, holdingMutex, holdingRedisson, usingUniversal } from '../stage/held.js';
import { ourLocks } from '../stage/our-locks.js';
import { connect, type RedisServer } from '../stage/redis.js';

const LEASE_MS = 3_000;

export const scenario: Scenario<Held> = {
  title: 'One renewal fails',
  workload: `A lock of ${LEASE_MS / 1_000} s is held for longer. Redis refuses the first renewal and accepts the others.`,
  async play({ key, isLost }, server) {
    if (!(await refuseFirstRenewal(server))) throw new Error('No renewal was refused');
    await sleep(2 * LEASE_MS);
    const redis = await connect(server);
    const holds = (await redis.exists(key)) === 1 && !isLost();
    return {
      holds,
      figure: holds ? 'still held' : 'lost',
      words: holds
        ? 'The renewal was retried in time.'
        : 'The lock was given up while it was still valid.',
    };
  },
  peers: [
    {
      library: 'redlock4',
      settings: '`extend` every second, with the defaults.',
      note: 'Fixed in 5.0.0-beta.',
      async open(server) {
        const { default: Redlock } = await import('redlock4');
        const redlock = new Redlock([await connect(server)]);
        redlock.on('clientError', () => {});
        const lock = await redlock.lock('stock:42', LEASE_MS);
        setInterval(() => void lock.extend(LEASE_MS).catch(() => {}), 1_000);
        return { key: 'stock:42', isLost: () => false }; // the key says it
      },
    },
    {
      library: 'redis-semaphore',
      settings: '`Mutex` with an `onLockLost`, default refresh (at 0.8 of the lock).',
      open: holdingMutex(LEASE_MS, 'listen'),
    },
    {
      library: 'redlock-universal',
      settings: '`using` with the defaults.',
      open: usingUniversal(LEASE_MS),
    },
    {
      library: 'node-redisson',
      settings: '`lock()` with a watchdog of the same time.',
      open: holdingRedisson(LEASE_MS),
    },
  ],
  ours: {
    settings: `\`leaseMs: ${LEASE_MS}\`.`,
    async open(server) {
      const lock = await (await ourLocks(server, { leaseMs: LEASE_MS })).acquire('stock:42');
      return { key: 'lock:{stock:42}', isLost: () => !lock.isHeld };
    },
  },
};

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
