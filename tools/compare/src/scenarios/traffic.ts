import { setTimeout as sleep } from 'node:timers/promises';
import { played, type PlayedSide, type Scenario, type Side } from '../scenario.js';
import { openRedisson } from '../stage/clients.js';
import { type EngineName, type EngineSettings, engineSide } from '../stage/engines.js';
import { ourSide } from '../stage/our-side.js';
import {
  commandCount,
  connect,
  connectToHeld,
  type RedisServer,
  scriptCount,
  triesOf,
} from '../stage/redis.js';

const WAITERS = 100;
const WATCHED_MS = 2_000;
const FEW = '✓ # commands/s';
const MANY = '✗ # commands/s';

/** One engine holds the key, a second one waits for it. */
function waiting(library: EngineName, settings: EngineSettings = {}): Side<() => Promise<unknown>> {
  return engineSide(
    library,
    async ({ hold }) => {
      await new Promise<void>((resolve) => {
        void hold('stock:42', () => {
          resolve();
          return new Promise<never>(() => {});
        });
      });
      return () => hold('stock:42', async () => {});
    },
    { leaseMs: 60_000, ...settings },
  );
}

export const hundredWaiters: Scenario<() => Promise<unknown>> = {
  title: 'A hundred callers wait',
  workload: `${WAITERS} callers of one process wait for a key that is held. ✓ is less than one command per waiter and second.`,
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
  sides: [
    played(MANY, waiting('redis-semaphore', { settings: 'The defaults (`retryInterval: 10`).' })),
    played(
      FEW,
      waiting('redis-semaphore', {
        own: { retryInterval: 2_000 },
        settings: '`retryInterval: 2000`.',
        note: 'A free lock is noticed up to 2 s later.',
      }),
      '`retryInterval: 2000`',
    ),
    ...(['redlock', '@sesamecare-oss/redlock'] as const).flatMap((library) => [
      played(
        MANY,
        waiting(library, {
          own: { retryCount: -1 },
          settings: '`retryCount: -1`, otherwise the defaults (200 to 400 ms apart).',
        }),
      ),
      played(
        FEW,
        waiting(library, {
          own: { retryCount: -1, retryDelay: 5_000 },
          settings: '`retryCount: -1`, `retryDelay: 5000`.',
          note: 'A free lock is noticed up to 5 s later.',
        }),
        '`retryDelay: 5000`',
      ),
    ]),
    played(MANY, waiting('redlock4', { own: { retryCount: -1 }, settings: '`retryCount: -1`.' })),
    played(
      MANY,
      waiting('redlock-universal', {
        own: { retryAttempts: 1_000 },
        settings: '`retryAttempts: 1000`, otherwise the defaults (100 ms apart).',
      }),
    ),
    played(
      MANY,
      waiting('@redis-kit/lock', {
        own: { maxRetryAttempts: 1_000 },
        settings: '`maxRetryAttempts: 1000`, otherwise the defaults (200 to 300 ms apart).',
      }),
    ),
    played(FEW, waiting('node-redisson', { settings: 'The defaults (Pub/Sub).' })),
    played(FEW, waiting('simple-redis-mutex', { settings: 'The defaults (Pub/Sub).' })),
    played(
      FEW,
      ourSide({}, async ({ locks: holder, another }) => {
        const others = await another();
        await holder.acquire('stock:42');
        return () => others.acquire('stock:42');
      }),
    ),
  ],
};

const LEASE_MS = 1_000;

type Using = (work: () => Promise<void>) => Promise<void>;

const using = (library: EngineName, settings = `The defaults, and 1 s.`, own: object = {}) =>
  engineSide(
    library,
    ({ hold }): Using =>
      (work) =>
        hold('stock:42', work),
    {
      leaseMs: LEASE_MS,
      settings,
      own,
    },
  );

const MODEST = '✓ # commands';

export const shortLease: Scenario<Using> = {
  title: 'A lease of one second',
  workload: `A lock of ${LEASE_MS} ms with automatic renewal, and work of 500 ms. All commands in Redis count, also in scripts; ✓ is less than 50.`,
  async play(using, server) {
    const redis = await connect(server);
    const before = await commandCount(redis);
    await using(() => sleep(500));
    const commands = (await commandCount(redis)) - before - 1;
    return { holds: commands < 50, figure: `${commands} commands`, words: '' };
  },
  sides: [
    played('✗ # commands', {
      ...using('redlock-universal'),
      note: 'Leases from about 1.3 s are renewed at 80 %.',
    }),
    played(
      MODEST,
      engineSide(
        'redlock-universal',
        ({ hold }): Using =>
          (work) =>
            hold('stock:42', work),
        {
          leaseMs: 1_500,
          settings: 'A lock of 1.5 s.',
        },
      ),
      'a lock of 1.5 s',
    ),
    played(MODEST, using('redlock')),
    played(MODEST, using('@sesamecare-oss/redlock')),
    played(MODEST, using('redis-semaphore')),
    played(MODEST, using('node-redisson')),
    played(
      MODEST,
      using('@redis-kit/lock', '`extensionThresholdMs: 500`.', { extensionThresholdMs: 500 }),
    ),
    played(MODEST, using('nestjs-locked', '`leaseMs: 1000`.')),
  ],
};

/** Takes a lock that is to be renewed, and does not wait for its end. */
function heldFor(library: EngineName, settings: EngineSettings): Side<unknown> {
  return engineSide(
    library,
    async ({ hold }) => {
      hold('stock:42', () => sleep(60_000)).catch(() => {});
      await sleep(50);
    },
    { leaseMs: LEASE_MS, ...settings },
  );
}

export const retriesWithoutPause: Scenario = {
  title: 'Redis refuses every renewal',
  workload: `Redis refuses every renewal of a lock of ${LEASE_MS} ms. How many scripts does it get until the lease ends? ✓ is less than 100.`,
  async play(_, server) {
    const admin = await connect(server);
    await admin.acl('SETUSER', 'default', '-pexpire', '-pexpireat', '-set');
    await sleep(1.5 * LEASE_MS);
    const scripts = await scriptCount(admin);
    return { holds: scripts < 100, figure: `${scripts} scripts`, words: '' };
  },
  sides: [
    ...(['redlock', '@sesamecare-oss/redlock'] as const).flatMap((library) => [
      played('✓ # scripts', heldFor(library, { settings: '`using` with the defaults.' })),
      played(
        library === 'redlock' ? '✗ # scripts' : '✓ # scripts',
        heldFor(library, {
          own: { retryCount: 0 },
          settings: '`using` with `retryCount: 0`, which its README offers for a single try.',
        }),
        '`retryCount: 0`',
      ),
    ]),
    played('✗ exit code 1', heldFor('redis-semaphore', { settings: 'The defaults, and 1 s.' })),
    played('✓ # scripts', heldFor('redlock-universal', { settings: 'The defaults, and 1 s.' })),
    played('✓ # scripts', heldFor('node-redisson', { settings: 'A watchdog of 1 s.' })),
    played(
      '✓ # scripts',
      heldFor('@redis-kit/lock', {
        own: { extensionThresholdMs: 500 },
        settings: '`extensionThresholdMs: 500`.',
      }),
    ),
    played('✓ # scripts', heldFor('nestjs-locked', { settings: '`leaseMs: 1000`.' })),
  ],
};

/** What asks once for a key that is taken. */
type Attempt = () => Promise<unknown>;

function single(library: EngineName, settings: string, own: object): Side<Attempt> {
  return engineSide(
    library,
    async ({ key, hold }, server) => {
      await hold('stock:41', async () => {}); // its scripts are known from now on
      await connectToHeld(server, key('stock:42'));
      return () => hold('stock:42', async () => {});
    },
    { settings, own },
  );
}

const ONCE = ['✓ 1 try in # ms', '✓ 2 tries in # ms'];

const singleTries: PlayedSide<Attempt>[] = [
  played(ONCE, single('redlock', '`retryCount: 0`.', { retryCount: 0 })),
  played(ONCE, single('@sesamecare-oss/redlock', '`retryCount: 0`.', { retryCount: 0 })),
  played(
    ONCE,
    single('redis-semaphore', '`acquireAttemptsLimit: 1`.', { acquireAttemptsLimit: 1 }),
  ),
  played(ONCE, single('redlock-universal', '`retryAttempts: 0`.', { retryAttempts: 0 })),
  played(ONCE, single('@redis-kit/lock', '`maxRetryAttempts: 0`.', { maxRetryAttempts: 0 })),
  played(ONCE, {
    library: 'node-redisson',
    settings: '`tryLock(0, true)`.',
    async open(server) {
      const others = await openRedisson(server);
      await (await openRedisson(server)).getLock('stock:42').lock();
      return () => others.getLock('stock:42').tryLock(0, true);
    },
  }),
  played(ONCE, {
    library: 'simple-redis-mutex',
    settings: '`tryLock`.',
    async open(server: RedisServer) {
      const { tryLock } = await import('simple-redis-mutex');
      const { nodeRedis } = await import('../stage/node-redis.js');
      await connectToHeld(server, '@simple-redis-mutex:lock-stock:42');
      const redis = await nodeRedis(server);
      return () => tryLock(redis as never, 'stock:42');
    },
  }),
];

/** How often Redis was asked by a call that is to ask once. */
export const singleTry: Scenario<Attempt> = {
  title: 'One try and no more',
  workload: 'A single try for a key that is taken.',
  async play(attempt, server) {
    const redis = await connect(server);
    let ms = 0;
    const attempts = await triesOf(redis, async () => {
      const from = performance.now();
      await attempt().catch(() => {});
      ms = Math.round(performance.now() - from);
    });
    const holds = attempts <= 2; // some give back what they did not get
    return {
      holds,
      figure: `${attempts} ${attempts === 1 ? 'try' : 'tries'} in ${ms} ms`,
      words: holds ? 'It asked once.' : 'It kept asking.',
    };
  },
  sides: [
    played('✗ # tries in # ms', {
      library: 'redlock4',
      settings: '`retryCount: 0` for the call; `retryDelay: 50` for all.',
      note: 'Fixed in 5.0.0-beta.',
      async open(server) {
        const { default: Redlock } = await import('redlock4');
        const redis = await connectToHeld(server, 'stock:42');
        const redlock = new Redlock([redis], { retryDelay: 50 });
        await (await redlock.lock('stock:41', 5_000)).unlock();
        return () => redlock.lock('stock:42', 5_000, { retryCount: 0 });
      },
    }),
    played(
      ONCE,
      single('redlock4', '`retryCount: 0` in the constructor.', { retryCount: 0 }),
      'in the constructor',
    ),
    ...singleTries,
    played(
      ONCE,
      ourSide(
        {},
        async ({ locks, server }) => {
          await connectToHeld(server, 'lock:{stock:42}');
          return () => locks.tryAcquire('stock:42');
        },
        '`tryAcquire`.',
      ),
    ),
  ],
};
