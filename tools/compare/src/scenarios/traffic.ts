import { setTimeout as sleep } from 'node:timers/promises';
import type { Scenario } from '../scenario.js';
import { openRedlock, universalSide } from '../stage/clients.js';
import { ourLocks, ourSide } from '../stage/our-locks.js';
import { commandCount, connect, connectToHeld, scriptCount } from '../stage/redis.js';

const WAITERS = 100;
const WATCHED_MS = 2_000;

export const hundredWaiters: Scenario<() => Promise<unknown>> = {
  title: 'A hundred callers wait',
  workload: `${WAITERS} callers of one process wait for a key that is held. One command per waiter and second would be fair.`,
  async play(wait, server) {
    const redis = await connect(server);
    for (let i = 0; i < WAITERS; i += 1) void wait().catch(() => {});
    await sleep(500);
    const before = await commandCount(redis);
    await sleep(WATCHED_MS);
    const commands = (await commandCount(redis)) - before - 1;
    const perSecond = Math.round(commands / (WATCHED_MS / 1_000));
    return { holds: perSecond < WAITERS, figure: `${perSecond} commands/s`, words: '' };
  },
  peers: [
    {
      library: 'redis-semaphore',
      settings: 'The defaults (`retryInterval: 10`).',
      note: 'A longer `retryInterval` means less load and a later turn.',
      async open(server) {
        const { Mutex } = await import('redis-semaphore');
        const redis = await connectToHeld(server, 'mutex:stock:42');
        return () => new Mutex(redis, 'stock:42').acquire();
      },
    },
    {
      library: 'redlock',
      settings: 'Defaults (200 to 300 ms apart), `retryCount: -1`.',
      async open(server) {
        const redis = await connectToHeld(server, 'stock:42');
        const redlock = await openRedlock('redlock', [redis], { retryCount: -1 });
        return () => redlock.acquire(['stock:42'], 5_000);
      },
    },
  ],
  ours: ourSide({}, async (holder, server) => {
    const others = await ourLocks(server);
    await holder.acquire('stock:42');
    return () => others.acquire('stock:42');
  }),
};

const LEASE_MS = 1_000;

export const shortLease: Scenario<(work: () => Promise<void>) => Promise<void>> = {
  title: 'A lease of one second',
  workload: `A lock of ${LEASE_MS} ms with automatic renewal, and work of 500 ms. All commands in Redis count, also in scripts.`,
  async play(using, server) {
    const redis = await connect(server);
    const before = await commandCount(redis);
    await using(() => sleep(500));
    const commands = (await commandCount(redis)) - before - 1;
    return { holds: commands < 50, figure: `${commands} commands`, words: '' };
  },
  peers: [
    universalSide(
      '`using` with the defaults.',
      LEASE_MS,
      (lock) => (work: () => Promise<void>) => lock.using(work),
      { note: 'Leases from about 1.3 s are renewed at 80 %.' },
    ),
  ],
  ours: ourSide({ leaseMs: LEASE_MS }, (locks) => (work) => locks.withLock('stock:42', work)),
};

export const retriesWithoutPause: Scenario = {
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
  ours: ourSide({ leaseMs: LEASE_MS, waitMs: 0 }, (locks) => locks.acquire('stock:42')),
};

/** How often Redis was asked by a call that is to ask once. */
export const singleTry: Scenario<() => Promise<unknown>> = {
  title: 'One try and no more',
  workload: 'A single try for a key that is taken.',
  async play(attempt, server) {
    const redis = await connect(server);
    const before = await scriptCount(redis);
    const from = performance.now();
    await attempt().catch(() => {});
    const ms = Math.round(performance.now() - from);
    const attempts = (await scriptCount(redis)) - before;
    const holds = attempts <= 2; // the first use of a script may have to send it once more
    return {
      holds,
      figure: `${attempts} ${attempts === 1 ? 'script' : 'scripts'} in ${ms} ms`,
      words: holds ? 'It asked once.' : 'It kept asking.',
    };
  },
  peers: [
    {
      library: 'redlock4',
      settings: '`retryCount: 0` for the call; `retryDelay: 50` for all.',
      note: 'Fixed in 5.0.0-beta. With `retryCount: 0` in the constructor, version 4 also asks once.',
      async open(server) {
        const { default: Redlock } = await import('redlock4');
        const redis = await connectToHeld(server, 'stock:42');
        const redlock = new Redlock([redis], { retryDelay: 50 });
        return () => redlock.lock('stock:42', 5_000, { retryCount: 0 });
      },
    },
  ],
  ours: ourSide(
    {},
    async (locks, server) => {
      await connectToHeld(server, 'lock:{stock:42}');
      return () => locks.tryAcquire('stock:42');
    },
    '`tryAcquire`.',
  ),
};
