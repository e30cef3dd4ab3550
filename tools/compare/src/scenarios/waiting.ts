import { TcpProxy } from 'kit';
import { setTimeout as sleep } from 'node:timers/promises';
import { played, type Scenario, type Side } from '../scenario.js';
import { openRedisson } from '../stage/clients.js';
import {
  type Engine,
  type EngineName,
  type EngineSettings,
  engineSide,
  openEngine,
  type Signal,
} from '../stage/engines.js';
import { nodeRedis } from '../stage/node-redis.js';
import { ourSide } from '../stage/our-side.js';
import type { RedisServer } from '../stage/redis.js';
import { connect, connectToHeld } from '../stage/redis.js';
import { inSeconds, settled } from '../stage/settled.js';

const LEASE_MS = 1_000;
const HELD_MS = 1_500;
const WORK_MS = 600;

const oneSecond = (settings = 'The defaults, and 1 s.', own: object = {}): EngineSettings => ({
  leaseMs: LEASE_MS,
  settings,
  own,
});
const asEngine = (library: EngineName, settings?: EngineSettings): Side<Engine> =>
  engineSide(library, (engine) => engine, settings);

const FINISHED = '✓ finished';
const ABORTED = '✗ aborted';

export const longWait: Scenario<Engine> = {
  title: 'The wait was longer than the lease',
  workload: `A call waits ${HELD_MS} ms for a lock of ${LEASE_MS} ms; then its work takes ${WORK_MS} ms.`,
  async play({ key, hold }, server) {
    const redis = await connectToHeld(server, key('stock:42'), HELD_MS);
    let isThere = false;
    let signal: Signal | undefined;
    await hold('stock:42', async (given) => {
      signal = given;
      await sleep(WORK_MS);
      isThere = (await redis.exists(key('stock:42'))) === 1;
      signal = { aborted: given?.aborted ?? false };
    }).catch(() => {});
    if (signal === undefined && !isThere) {
      return { holds: false, figure: 'refused', words: 'It did not get the lock.' };
    }
    const isAborted = signal?.aborted === true;
    return {
      holds: !isAborted && isThere,
      figure: isAborted ? 'aborted' : isThere ? 'finished' : 'lock gone',
      words: isAborted
        ? `The work was told that its lock is lost. Its key was ${isThere ? 'there' : 'gone'}.`
        : `Its key was ${isThere ? 'there' : 'gone'} at the end.`,
    };
  },
  sides: [
    played(ABORTED, {
      ...asEngine('redlock', oneSecond()),
      note: 'Fixed on its main branch, in no release. @sesamecare-oss/redlock has the fix.',
    }),
    played(FINISHED, asEngine('redlock', { settings: 'A lock of 5 s.' }), 'a lock of 5 s'),
    played(FINISHED, asEngine('@sesamecare-oss/redlock', oneSecond())),
    played(FINISHED, asEngine('redlock4', oneSecond())),
    played(
      FINISHED,
      asEngine('redlock-universal', oneSecond('`retryAttempts: 100`.', { retryAttempts: 100 })),
    ),
    played(FINISHED, asEngine('redis-semaphore', oneSecond())),
    played(
      FINISHED,
      asEngine(
        '@redis-kit/lock',
        oneSecond('`maxRetryAttempts: 100`, `extensionThresholdMs: 500`.', {
          maxRetryAttempts: 100,
          extensionThresholdMs: 500,
        }),
      ),
    ),
    played(
      FINISHED,
      asEngine(
        'simple-redis-mutex',
        oneSecond('`pollingInterval: 100`.', { pollingInterval: 100 }),
      ),
    ),
    played(FINISHED, asEngine('nestjs-locked', oneSecond('`leaseMs: 1000`.'))),
  ],
};

const LATE_MS = 1_500;

/** A server whose answers can be delayed on their way, while it does everything in time. */
interface Delayed {
  readonly engine: Engine;
  delay(ms: number): void;
}

/** @param library is connected through the proxy */
function delayed(library: EngineName, settings: EngineSettings): Side<Delayed> {
  return {
    ...asEngine(library, settings),
    async open(server) {
      const proxy = await new TcpProxy(server.port).open();
      const { port, href: url } = new URL(proxy.url);
      const behind = { port: Number(port), url } as RedisServer;
      const engine = await openEngine(library, behind, settings);
      // What is done for the first time takes another way: scripts have to be sent, channels subscribed to.
      await engine.hold('stock:41', async () => {});
      const delay = (ms: number): void => {
        for (const link of proxy.links) link.answersLateByMs = ms;
      };
      return { engine, delay };
    },
  };
}

const HELD = '✓ held';
const EXPIRED = '✗ expired';

export const lateReply: Scenario<Delayed> = {
  title: 'The answer comes later than the lease ends',
  workload: `Redis grants a lock of ${LEASE_MS} ms at once, but its answer takes ${LATE_MS} ms. Later answers are in time. Is there still a lock in Redis when the work begins?`,
  async play({ engine: { key, hold }, delay }, server) {
    const redis = await connect(server);
    delay(LATE_MS);
    let isThere: boolean | undefined;
    const call = hold('stock:42', async () => {
      isThere = (await redis.exists(key('stock:42'))) === 1;
    });
    await sleep(LATE_MS - 100);
    delay(0);
    const result = await settled(call, 10_000);
    if (isThere === undefined) {
      const words = result.state === 'rejected' ? `"${result.error.message}"` : '';
      return { holds: result.state === 'rejected', figure: 'refused', words };
    }
    return {
      holds: isThere,
      figure: isThere ? 'held' : 'expired',
      words: isThere
        ? 'The work began under a lock.'
        : 'The work began after the lock had expired: somebody else may hold it.',
    };
  },
  sides: [
    played(EXPIRED, {
      ...delayed('redlock', oneSecond()),
      note: 'Version 4 still checked this.',
    }),
    played(EXPIRED, delayed('@sesamecare-oss/redlock', oneSecond())),
    played(HELD, delayed('redlock4', oneSecond())),
    played(HELD, delayed('redlock-universal', oneSecond())),
    played(EXPIRED, delayed('redis-semaphore', oneSecond())),
    played(EXPIRED, delayed('node-redisson', oneSecond())),
    played(EXPIRED, delayed('simple-redis-mutex', oneSecond())),
    played(HELD, delayed('@redis-kit/lock', oneSecond())),
    played(HELD, delayed('nestjs-locked', oneSecond('`leaseMs: 1000`.'))),
  ],
};

const PAUSE_MS = 3_000;

/** With a time-out of its client of Redis. */
const impatient = (settings: string, own: object = {}): EngineSettings => ({
  leaseMs: 30_000,
  settings,
  ...(settings.includes('commandTimeout') && { client: { commandTimeout: 500 } }),
  own,
});
const patient = { leaseMs: 30_000, settings: 'The defaults, and 30 s.' } as const;
const TAKEN = '✓ acquired';
const NOTHING_LEFT = '✓ failed, nothing left';
const LEFT = '✗ failed, key left for # s';

/** The commands of a call that was given up still arrive: what do they leave behind? */
export const acquireTimesOut: Scenario<Engine> = {
  title: 'Redis stands still while a lock is asked for',
  workload: `Redis stands still for ${PAUSE_MS / 1_000} s; then it goes on. Those whose documented settings wait for longer are also played with a time-out of 500 ms.`,
  limitMs: 40_000,
  async play({ key, hold }, server) {
    const redis = await connect(server);
    server.pause();
    const call = settled(
      hold('stock:42', async () => {}),
      20_000,
    );
    await sleep(PAUSE_MS);
    server.resume();
    const result = await call;
    await sleep(500);
    const ttl = await redis.pttl(key('stock:42'));
    if (result.state === 'fulfilled') {
      return { holds: true, figure: 'acquired', words: `After ${inSeconds(result.afterMs)}.` };
    }
    return ttl < 0
      ? { holds: true, figure: 'failed, nothing left', words: 'The key is free.' }
      : {
          holds: false,
          figure: `failed, key left for ${inSeconds(ttl)}`,
          words: 'The call failed, and nobody holds the key that it left.',
        };
  },
  sides: [
    played(TAKEN, asEngine('redlock-universal', patient)),
    played(
      LEFT,
      asEngine(
        'redlock-universal',
        impatient('A `timeout` of 500 ms for the commands of its adapter.', { timeout: 500 }),
      ),
      '`timeout: 500`',
    ),
    ...(['redlock', '@sesamecare-oss/redlock', 'redlock4', 'redis-semaphore'] as const).flatMap(
      (library) => [
        played(TAKEN, asEngine(library, patient)),
        played(
          library === 'redis-semaphore' ? LEFT : [TAKEN, NOTHING_LEFT],
          asEngine(library, impatient('`commandTimeout: 500` for ioredis.')),
          '`commandTimeout: 500`',
        ),
      ],
    ),
    played(TAKEN, asEngine('node-redisson', patient)),
    played(TAKEN, asEngine('simple-redis-mutex', patient)),
    played(TAKEN, asEngine('@redis-kit/lock', patient)),
    played(TAKEN, asEngine('nestjs-locked', { settings: 'The defaults (`waitMs: 10_000`).' })),
    played(
      NOTHING_LEFT,
      asEngine('nestjs-locked', { own: { waitMs: 500 }, settings: '`waitMs: 500`.' }),
      '`waitMs: 500`',
    ),
  ],
};

const FIRST_MS = 300;
const SECOND_MS = 5_000;
const RELEASED_AFTER_MS = 600;

interface Locks {
  hold(): Promise<() => Promise<unknown>>;
  /** Waits for the lock for a long or a short time. @returns whether it was taken */
  wait(howLong: 'long' | 'short'): Promise<boolean>;
}

/** @param short what makes it give up after about `FIRST_MS` @param long what makes it wait for `SECOND_MS` */
function twoWaiters(library: EngineName, short: object, long: object = {}): Side<Locks> {
  const words = Object.entries(short).map(([name, value]) => `\`${name}: ${value}\``);
  return {
    library,
    settings: `${words.join(', ')} for the one that gives up.`,
    async open(server) {
      const [holder, hasty, patient] = await Promise.all(
        [{}, short, long].map((own) => openEngine(library, server, { own, leaseMs: 10_000 })),
      );
      return {
        hold: () =>
          new Promise((resolve) => {
            const ended = holder?.hold(
              'stock:42',
              () => new Promise<void>((end) => resolve(async () => (end(), await ended))),
            );
          }),
        wait: async (howLong) => {
          const waiter = howLong === 'long' ? patient : hasty;
          await waiter?.hold('stock:42', async () => {});
          return true;
        },
      };
    },
  };
}

function redissonWaiters(settings: string, own: object = {}): Side<Locks> {
  return {
    library: 'node-redisson',
    settings,
    async open(server) {
      const { TimeUnit } = await import('node-redisson');
      const redisson = await openRedisson(server, undefined, own);
      return {
        async hold() {
          const lock = redisson.getLock('stock:42');
          await lock.lock();
          return () => lock.unlock();
        },
        wait(howLong) {
          const ms = howLong === 'long' ? SECOND_MS : FIRST_MS;
          return redisson.getLock('stock:42').tryLock(ms, true, TimeUnit.MILLISECONDS);
        },
      };
    },
  };
}

const TAKEN_SOON = '✓ taken after # ms';

export const oneOfTwoWaiters: Scenario<Locks> = {
  title: 'One of two waiters gives up',
  workload:
    `Two wait for one key. One gives up after ${FIRST_MS} ms, or a little more; the key becomes free after ` +
    `${RELEASED_AFTER_MS} ms. How long until the other gets it? ✓ is less than 1 s.`,
  async play({ hold, wait }) {
    const release = await hold();
    const second = settled(wait('long'), 2 * SECOND_MS);
    void wait('short').catch(() => {});
    await sleep(RELEASED_AFTER_MS);
    const from = performance.now();
    await release();
    const result = await second;
    const isTaken = result.state === 'fulfilled' && result.value;
    const lateMs = Math.round(performance.now() - from);
    return {
      holds: isTaken && lateMs < 1_000,
      figure: isTaken ? `taken after ${lateMs} ms` : `not taken in ${SECOND_MS / 1_000} s`,
      words: isTaken
        ? 'The call that gives up does not affect the other.'
        : 'It waited in vain for a free lock.',
    };
  },
  sides: [
    played('✗ not taken in 5 s', redissonWaiters('`tryLock` with the defaults (Pub/Sub).')),
    played(
      TAKEN_SOON,
      redissonWaiters("`tryLock`, `eventAdapter: 'streams'`.", { eventAdapter: 'streams' }),
      'streams',
    ),
    played(TAKEN_SOON, twoWaiters('redlock', { retryCount: 1 })),
    played(TAKEN_SOON, twoWaiters('@sesamecare-oss/redlock', { retryCount: 1 })),
    played(TAKEN_SOON, twoWaiters('redlock4', { retryCount: 1 })),
    played(
      TAKEN_SOON,
      twoWaiters('redlock-universal', { retryAttempts: 3 }, { retryAttempts: 50 }),
    ),
    played(TAKEN_SOON, twoWaiters('redis-semaphore', { acquireTimeout: FIRST_MS })),
    played(TAKEN_SOON, twoWaiters('simple-redis-mutex', { failAfter: FIRST_MS })),
    played(
      TAKEN_SOON,
      twoWaiters('@redis-kit/lock', { maxRetryAttempts: 1 }, { maxRetryAttempts: 20 }),
    ),
    played(
      TAKEN_SOON,
      ourSide({}, async ({ locks: holder, another }) => {
        const others = await another();
        return {
          async hold() {
            const lock = await holder.acquire('stock:42');
            return () => lock.release();
          },
          wait: async (howLong) => {
            const waitMs = howLong === 'long' ? SECOND_MS : FIRST_MS;
            return (await others.acquire('stock:42', { waitMs })).isHeld;
          },
        };
      }),
    ),
  ],
};

const SHORT_LEASE_MS = 500;
/** Longer than the lease: the first holder is too late. */
const STALL_MS = 800;

/** The tokens of two holders, in the order in which they took the lock. */
type Tokens = readonly [first: number, second: number];

export const orderOfTokens: Scenario<Tokens> = {
  title: 'Fencing tokens of a holder that stood still',
  repeats: 1,
  workload:
    `The first caller stalls for ${STALL_MS} ms while it takes the lock, longer than the lock lasts. A second one takes ` +
    'it meanwhile. No other library here has fencing tokens.',
  async play([first, second]) {
    const holds = second > first;
    return {
      holds,
      figure: `the ${holds ? 'present' : 'former'} holder has the larger one`,
      words: '',
    };
  },
  sides: [
    played('✗ the former holder has the larger one', {
      library: 'simple-redis-mutex',
      settings: '`tryLock`. It sends SET and then INCR; the first client is delayed in between.',
      async open(server) {
        const { tryLock } = await import('simple-redis-mutex');
        const [slow, other] = await Promise.all([nodeRedis(server), nodeRedis(server)]);
        const increment = slow.incr.bind(slow);
        const delayedIncrement = async (key: string): Promise<number> => {
          await sleep(STALL_MS);
          return increment(key);
        };
        Object.defineProperty(slow, 'incr', { value: delayedIncrement });
        const late = tryLock(slow as never, 'stock:42', { timeout: SHORT_LEASE_MS });
        await sleep(SHORT_LEASE_MS + 100);
        const [, second] = await tryLock(other as never, 'stock:42', { timeout: SHORT_LEASE_MS });
        const [, first] = await late;
        return [first.fencingToken, second.fencingToken];
      },
    }),
    played(
      '✓ the present holder has the larger one',
      ourSide(
        { leaseMs: SHORT_LEASE_MS },
        async ({ locks: slow, another }) => {
          const other = await another();
          const first = await slow.acquire('stock:42', { renew: false });
          await sleep(STALL_MS);
          const second = await other.acquire('stock:42');
          return [first.fencingToken, second.fencingToken] as const;
        },
        `\`leaseMs: ${SHORT_LEASE_MS}\`. One script takes the lock and makes the token: there is nothing in between.`,
      ),
    ),
  ],
};
