import type { Lock as UniversalLock } from 'redlock-universal';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Scenario } from '../scenario.js';
import {
  openRedisson,
  type Redlock,
  redlockSide,
  type Signal,
  universalSide,
} from '../stage/clients.js';
import { ourSide } from '../stage/our-locks.js';
import { connect, type RedisServer } from '../stage/redis.js';
import { inSeconds } from '../stage/settled.js';

/** A lock that is held from now on, and renewed by its library. */
interface Held {
  readonly key: string;
  /** Whether the holder has been told that it is lost. */
  isLost(): boolean;
}

type Hold = (server: RedisServer) => Promise<Held>;

const HANGING_LEASE_MS = 2_000;
const WATCHED_MS = 8_000;
const NEVER = new Promise<never>(() => {});

/** Work that never ends, under a lock that is renewed for it. */
async function whileUsing(
  using: (work: (signal: Signal) => Promise<never>) => Promise<never>,
): Promise<Held> {
  const signal = await new Promise<Signal>((resolve) => {
    void using((held) => {
      resolve(held);
      return NEVER;
    });
  });
  return { key: 'stock:42', isLost: () => signal.aborted };
}

const usingRedlock = (redlock: Redlock): Promise<Held> =>
  whileUsing((work) => redlock.using(['stock:42'], HANGING_LEASE_MS, work));

const usingUniversal = (lock: UniversalLock): Promise<Held> =>
  whileUsing((work) => lock.using(work));

/** A `Mutex` of redis-semaphore, with an `onLockLost` or with the one that it has by default. */
function holdingMutex(leaseMs: number, listen?: 'listen'): Hold {
  return async (server) => {
    const { Mutex } = await import('redis-semaphore');
    let isTold = false;
    const mutex = new Mutex(await connect(server), 'stock:42', {
      lockTimeout: leaseMs,
      ...(listen && { onLockLost: () => (isTold = true) }),
    });
    await mutex.acquire();
    return { key: 'mutex:stock:42', isLost: () => isTold || !mutex.isAcquired };
  };
}

function holdingRedisson(leaseMs: number): Hold {
  return async (server) => {
    await (await openRedisson(server, leaseMs)).getLock('stock:42').lock();
    return { key: 'stock:42', isLost: () => false }; // it has nothing that could tell
  };
}

export const redisHangs: Scenario<Pick<Held, 'isLost'>> = {
  title: 'Redis hangs while the lock is held',
  workload: `A lock with a lease of ${HANGING_LEASE_MS / 1_000} s and automatic renewal; Redis is stopped (SIGSTOP) after 100 ms.`,
  async play(held, server) {
    await sleep(100);
    server.pause();
    const from = performance.now();
    while (!held.isLost() && performance.now() - from < WATCHED_MS) await sleep(10);
    const ms = performance.now() - from;
    if (!held.isLost()) {
      return {
        holds: false,
        figure: `no abort in ${WATCHED_MS / 1_000} s`,
        words: `${(WATCHED_MS - HANGING_LEASE_MS) / 1_000} s after the lock expired, the holder had not been told.`,
      };
    }
    // The last renewal may have been just before Redis stopped.
    const holds = ms <= HANGING_LEASE_MS + 200;
    return {
      holds,
      figure: `abort after ${inSeconds(ms)}`,
      words: holds
        ? 'The holder was told before anybody else could take the lock.'
        : `The holder was told ${inSeconds(ms - HANGING_LEASE_MS)} after its lock had expired.`,
    };
  },
  peers: [
    redlockSide(
      'redlock',
      '`using` with the defaults; its README tells the routine to check the AbortSignal.',
      usingRedlock,
    ),
    redlockSide('@sesamecare-oss/redlock', '`using` with the defaults.', usingRedlock),
    {
      library: 'redis-semaphore',
      settings: '`Mutex` with an `onLockLost`, and `isAcquired`, which its README checks.',
      open: holdingMutex(HANGING_LEASE_MS, 'listen'),
    },
    universalSide(
      '`using` with the defaults (each command has 5 s).',
      HANGING_LEASE_MS,
      usingUniversal,
    ),
  ],
  ours: ourSide({ leaseMs: HANGING_LEASE_MS }, async (locks) => {
    const lock = await locks.acquire('stock:42');
    return { isLost: () => lock.signal.aborted };
  }),
};

const REFUSED_LEASE_MS = 3_000;

export const renewalRefused: Scenario<Held> = {
  title: 'One renewal fails',
  workload: `A lock of ${REFUSED_LEASE_MS / 1_000} s is held for longer. Redis refuses the first renewal and accepts the others.`,
  async play({ key, isLost }, server) {
    if (!(await refuseFirstRenewal(server))) throw new Error('No renewal was refused');
    await sleep(2 * REFUSED_LEASE_MS);
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
        const lock = await redlock.lock('stock:42', REFUSED_LEASE_MS);
        setInterval(() => void lock.extend(REFUSED_LEASE_MS).catch(() => {}), 1_000);
        return { key: 'stock:42', isLost: () => false }; // the key says it
      },
    },
    {
      library: 'redis-semaphore',
      settings: '`Mutex` with an `onLockLost`, default refresh (at 0.8 of the lock).',
      open: holdingMutex(REFUSED_LEASE_MS, 'listen'),
    },
    universalSide('`using` with the defaults.', REFUSED_LEASE_MS, usingUniversal),
    {
      library: 'node-redisson',
      settings: '`lock()` with a watchdog of the same time.',
      open: holdingRedisson(REFUSED_LEASE_MS),
    },
  ],
  ours: ourSide({ leaseMs: REFUSED_LEASE_MS }, async (locks) => {
    const lock = await locks.acquire('stock:42');
    return { key: 'lock:{stock:42}', isLost: () => !lock.isHeld };
  }),
};

/** Redis refuses to prolong keys until the first renewal has failed. */
async function refuseFirstRenewal(server: RedisServer): Promise<boolean> {
  const admin = await connect(server);
  await admin.acl('SETUSER', 'default', '-pexpire', '-pexpireat', '-set');
  const deadline = performance.now() + REFUSED_LEASE_MS * 0.9;
  let isRefused = false;
  while (!isRefused && performance.now() < deadline) {
    await sleep(10);
    isRefused = ((await admin.acl('LOG')) as unknown[]).length > 0;
  }
  await admin.acl('SETUSER', 'default', '+pexpire', '+pexpireat', '+set');
  return isRefused;
}

const LOST_LEASE_MS = 1_000;

export const lockLost: Scenario<Pick<Held, 'isLost'>> = {
  title: 'The lock is lost while it is held',
  workload: `The key of a lock of ${LOST_LEASE_MS} ms is deleted while it is held, as by a failover.`,
  async play({ isLost }, server) {
    await (await connect(server)).flushall();
    await sleep(2 * LOST_LEASE_MS);
    return isLost()
      ? {
          holds: true,
          figure: 'the holder is told',
          words: 'The process lives, and its code can check.',
        }
      : { holds: false, figure: 'nobody is told', words: 'The holder is not told.' };
  },
  peers: [
    {
      library: 'redis-semaphore',
      settings: '`Mutex` with the defaults.',
      note: 'As its README says; an `onLockLost` of your own is called instead.',
      open: holdingMutex(LOST_LEASE_MS),
    },
    {
      library: 'node-redisson',
      settings: '`lock()` with a watchdog of the same time.',
      open: holdingRedisson(LOST_LEASE_MS),
    },
  ],
  ours: ourSide({ leaseMs: LOST_LEASE_MS }, async (locks) => {
    const lock = await locks.acquire('stock:42');
    return { isLost: () => lock.signal.aborted && !lock.isHeld };
  }),
};
