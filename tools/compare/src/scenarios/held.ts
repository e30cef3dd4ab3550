import { setTimeout as sleep } from 'node:timers/promises';
import { played, type Scenario, type Side } from '../scenario.js';
import { type Engine, type EngineName, type EngineSettings, engineSide } from '../stage/engines.js';
import { nodeRedis } from '../stage/node-redis.js';
import { connect, type RedisServer } from '../stage/redis.js';
import { inSeconds } from '../stage/settled.js';

/** A lock that is held from now on, and renewed by its library. */
interface Held {
  readonly key: string;
  /** Whether the holder has been told that it is lost, or would be if it asked. */
  isLost(): boolean;
}

const NEVER = new Promise<never>(() => {});

/** Work that never ends, under a lock that is renewed for it. */
function holding({ key, hold }: Engine): Promise<Held> {
  return new Promise((resolve, reject) => {
    hold('stock:42', (signal) => {
      resolve({ key: key('stock:42'), isLost: () => signal?.aborted ?? false });
      return NEVER;
    }).catch(reject);
  });
}

function held(library: EngineName, settings?: EngineSettings): Side<Held> {
  return engineSide(library, holding, settings);
}

/** The routine of sesamecare's `using` is given the lock as well, which says until when it lasts. */
function heldWithContext(leaseMs: number): Side<Held> {
  return {
    library: '@sesamecare-oss/redlock',
    settings: '`using` with the defaults; the routine compares `context.lock.expiration`.',
    async open(server) {
      const { Redlock } = await import('@sesamecare-oss/redlock');
      const redlock = new Redlock([(await connect(server)) as never]);
      redlock.on('error', () => {});
      return new Promise((resolve) => {
        void redlock.using(['stock:42'], leaseMs, (signal, context) => {
          const isLost = (): boolean => signal.aborted || context.lock.expiration < Date.now();
          resolve({ key: 'stock:42', isLost });
          return NEVER;
        });
      });
    },
  };
}

/** A lock of @redis-kit/lock that is acquired, and not held around a function, has an `isValid`. */
function heldWithIsValid(leaseMs: number): Side<Held> {
  return {
    library: '@redis-kit/lock',
    settings: '`acquire`, `startAutoExtension(500)`; the holder asks `isValid`.',
    async open(server) {
      const { Redlock } = await import('@redis-kit/lock');
      const redlock = new Redlock([(await nodeRedis(server)) as never]);
      const lock = await redlock.acquire('stock:42', leaseMs);
      if (lock === null) throw new Error('It was not acquired');
      lock.startAutoExtension(500);
      return { key: 'stock:42', isLost: () => !lock.isValid };
    },
  };
}

const HANGING_LEASE_MS = 2_000;
const WATCHED_MS = 8_000;
const leased = (leaseMs: number, settings: string): EngineSettings => ({ leaseMs, settings });
const hanging = leased(HANGING_LEASE_MS, 'The defaults, and 2 s.');
const IN_TIME = '✓ told after # s';
const TOO_LATE = '✗ told after # s';
const NOT_TOLD = '✗ not told in 8 s';

export const redisHangs: Scenario<Pick<Held, 'isLost'>> = {
  title: 'Redis hangs while the lock is held',
  workload: `A lock with a lease of ${HANGING_LEASE_MS / 1_000} s and automatic renewal; Redis is stopped (SIGSTOP) after 100 ms. When can the holder know that its lock has expired?`,
  async play(held, server) {
    await sleep(100);
    server.pause();
    const from = performance.now();
    while (!held.isLost() && performance.now() - from < WATCHED_MS) await sleep(10);
    const ms = performance.now() - from;
    if (!held.isLost()) {
      return {
        holds: false,
        figure: `not told in ${WATCHED_MS / 1_000} s`,
        words: `${(WATCHED_MS - HANGING_LEASE_MS) / 1_000} s after the lock expired, the holder had not been told.`,
      };
    }
    // The last renewal may have been just before Redis stopped.
    const holds = ms <= HANGING_LEASE_MS + 200;
    return {
      holds,
      figure: `told after ${inSeconds(ms)}`,
      words: holds
        ? 'The holder was told before anybody else could take the lock.'
        : `The holder was told ${inSeconds(ms - HANGING_LEASE_MS)} after its lock had expired.`,
    };
  },
  sides: [
    played(NOT_TOLD, held('redlock', hanging)),
    played(
      IN_TIME,
      held('redlock', {
        leaseMs: HANGING_LEASE_MS,
        client: { commandTimeout: 200 },
        own: { retryCount: 0, automaticExtensionThreshold: 600 },
        settings:
          '`commandTimeout: 200` for ioredis, `retryCount: 0`, `automaticExtensionThreshold: 600`.',
      }),
      '`commandTimeout`',
    ),
    played(NOT_TOLD, held('@sesamecare-oss/redlock', hanging)),
    played(IN_TIME, heldWithContext(HANGING_LEASE_MS), '`context.lock.expiration`'),
    played(NOT_TOLD, held('redis-semaphore', hanging)),
    played(TOO_LATE, held('redlock-universal', hanging)),
    played(
      IN_TIME,
      held('redlock-universal', {
        leaseMs: HANGING_LEASE_MS,
        own: { timeout: 500 },
        settings: 'A `timeout` of 500 ms for the commands of its adapter, and 2 s.',
      }),
      '`timeout: 500`',
    ),
    played(NOT_TOLD, held('node-redisson', hanging)),
    played(
      NOT_TOLD,
      held('@redis-kit/lock', {
        leaseMs: HANGING_LEASE_MS,
        settings: '`withLock` with `extensionThresholdMs: 1000`, and 2 s.',
      }),
    ),
    played(IN_TIME, heldWithIsValid(HANGING_LEASE_MS), '`isValid`'),
    played(IN_TIME, held('nestjs-locked', leased(HANGING_LEASE_MS, '`leaseMs: 2000`.'))),
  ],
};

const REFUSED_LEASE_MS = 3_000;
const refused = leased(REFUSED_LEASE_MS, 'The defaults, and 3 s.');
const KEPT = '✓ still held';
const GIVEN_UP = '✗ lost';

export const renewalRefused: Scenario<Held> = {
  title: 'One renewal fails',
  workload: `A lock of ${REFUSED_LEASE_MS / 1_000} s is held for longer. Redis refuses the first renewal and accepts the others.`,
  async play({ key, isLost }, server) {
    if (!(await refuseFirstRenewal(server))) {
      if (!isLost()) throw new Error('No renewal was refused');
      const words = 'On a busy machine, it was given up before a renewal was tried.';
      return { holds: false, figure: 'lost', words };
    }
    await sleep(1.5 * REFUSED_LEASE_MS);
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
  sides: [
    played(GIVEN_UP, {
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
    }),
    played(KEPT, held('redlock', refused)),
    played(KEPT, held('@sesamecare-oss/redlock', refused)),
    played('✗ exit code 1', held('redis-semaphore', refused)),
    played(GIVEN_UP, held('redlock-universal', refused)),
    played(GIVEN_UP, held('node-redisson', refused)),
    played(
      GIVEN_UP,
      held('@redis-kit/lock', leased(REFUSED_LEASE_MS, '`extensionThresholdMs: 1000`, and 3 s.')),
    ),
    played(KEPT, held('nestjs-locked', leased(REFUSED_LEASE_MS, '`leaseMs: 3000`.'))),
  ],
};

/** Redis refuses to prolong keys until the first renewal has failed. */
async function refuseFirstRenewal(server: RedisServer): Promise<boolean> {
  const admin = await connect(server);
  await admin.acl('SETUSER', 'default', '-pexpire', '-pexpireat', '-set');
  const deadline = performance.now() + REFUSED_LEASE_MS * 3;
  let isRefused = false;
  while (!isRefused && performance.now() < deadline) {
    await sleep(10);
    isRefused = ((await admin.acl('LOG')) as unknown[]).length > 0;
  }
  await admin.acl('SETUSER', 'default', '+pexpire', '+pexpireat', '+set');
  return isRefused;
}

const LOST_LEASE_MS = 2_000;
const TOLD_WITHIN_MS = 8_000;
const lost = leased(LOST_LEASE_MS, 'The defaults, and 2 s.');

export const lockLost: Scenario<Pick<Held, 'isLost'>> = {
  title: 'The lock is lost while it is held',
  workload: `The key of a lock of ${LOST_LEASE_MS / 1_000} s is deleted while it is held, as by a failover. Is the holder told, and when?`,
  async play({ isLost }, server) {
    await (await connect(server)).flushall();
    const from = performance.now();
    while (!isLost() && performance.now() - from < TOLD_WITHIN_MS) await sleep(10);
    return isLost()
      ? {
          holds: true,
          figure: `told after ${inSeconds(performance.now() - from)}`,
          words: 'The process lives, and its code can check.',
        }
      : { holds: false, figure: `not told in ${TOLD_WITHIN_MS / 1_000} s`, words: '' };
  },
  sides: [
    played('✗ exit code 1', {
      library: 'redis-semaphore',
      settings: '`Mutex` with the defaults and 2 s.',
      note: 'As its README says.',
      async open(server) {
        const { Mutex } = await import('redis-semaphore');
        const mutex = new Mutex(await connect(server), 'stock:42', { lockTimeout: LOST_LEASE_MS });
        await mutex.acquire();
        return { isLost: () => !mutex.isAcquired };
      },
    }),
    played(IN_TIME, held('redis-semaphore', lost), '`onLockLost`'),
    played(IN_TIME, held('redlock', lost)),
    played(IN_TIME, held('@sesamecare-oss/redlock', lost)),
    played(IN_TIME, held('redlock-universal', lost)),
    played(NOT_TOLD, held('node-redisson', lost)),
    played(
      NOT_TOLD,
      held('@redis-kit/lock', leased(LOST_LEASE_MS, '`extensionThresholdMs: 1000`, and 2 s.')),
    ),
    played(IN_TIME, heldWithIsValid(LOST_LEASE_MS), '`isValid`'),
    played(IN_TIME, held('nestjs-locked', leased(LOST_LEASE_MS, '`leaseMs: 2000`.'))),
  ],
};
