import { setTimeout as sleep } from 'node:timers/promises';
import type { Scenario } from '../scenario.js';
import {
  openRedisson,
  type Redlock,
  redlockSide,
  type Signal,
  universalSide,
} from '../stage/clients.js';
import { ourLocks, ourSide } from '../stage/our-locks.js';
import { connect, connectToHeld } from '../stage/redis.js';
import { inSeconds, settled } from '../stage/settled.js';

const LEASE_MS = 1_000;
const HELD_MS = 1_500;
const WORK_MS = 600;

interface Waiting {
  readonly key: string;
  call(work: (signal: Signal) => Promise<boolean>): Promise<boolean>;
}

const waitWith = (redlock: Redlock): Waiting => ({
  key: 'stock:42',
  call: (work) => redlock.using(['stock:42'], LEASE_MS, work),
});

export const longWait: Scenario<Waiting> = {
  title: 'The wait was longer than the lease',
  workload: `A call waits ${HELD_MS} ms for a lock of ${LEASE_MS} ms; then its work takes ${WORK_MS} ms.`,
  async play({ key, call }, server) {
    const redis = await connectToHeld(server, key, HELD_MS);
    let isThere = false;
    const isAborted = await call(async (signal) => {
      await sleep(WORK_MS);
      isThere = (await redis.exists(key)) === 1;
      return signal.aborted;
    }).catch(() => true);
    return {
      holds: !isAborted,
      figure: isAborted ? 'aborted' : 'not aborted',
      words: isAborted
        ? `The work was told that its lock is lost. Its key was ${isThere ? 'there' : 'gone'}.`
        : 'The work finished under its lock.',
    };
  },
  peers: [
    redlockSide('redlock', '`using` with the defaults.', waitWith, {
      note: 'Fixed on its main branch, in no release. @sesamecare-oss/redlock has the fix.',
    }),
    redlockSide('@sesamecare-oss/redlock', '`using` with the defaults.', waitWith),
  ],
  ours: ourSide({ leaseMs: LEASE_MS }, (locks) => ({
    key: 'lock:{stock:42}',
    call: (work) => locks.withLock('stock:42', ({ signal }) => work(signal)),
  })),
};

/** Takes the lock, which says how long it is held. */
type Acquire = () => Promise<{ remainingMs(): number }>;

const acquireOf =
  (redlock: Redlock): Acquire =>
  async () => {
    const { expiration } = await redlock.acquire(['stock:42'], LEASE_MS);
    return { remainingMs: () => expiration - Date.now() };
  };

export const lateReply: Scenario<Acquire> = {
  title: 'The answer comes later than the lease ends',
  workload: `Redis stands still for 1500 ms while a lock of ${LEASE_MS} ms is requested.`,
  async play(acquire, server) {
    server.pause();
    const call = settled(acquire(), 10_000);
    await sleep(1_500);
    server.resume();
    const result = await call;
    if (result.state === 'rejected') {
      return { holds: true, figure: 'refused', words: `"${result.error.message}"` };
    }
    if (result.state === 'pending') {
      return { holds: false, figure: 'refused', words: 'There was no answer.' };
    }
    const remaining = Math.round(result.value.remainingMs());
    const holds = remaining > 0;
    return {
      holds,
      figure: holds ? `held, ${remaining} ms left` : `held, expired for ${-remaining} ms`,
      words: holds
        ? 'The lock was still valid when it was handed out.'
        : 'The lock was handed out after it had expired: somebody else may hold it.',
    };
  },
  peers: [
    redlockSide('redlock', '`acquire` with the defaults.', acquireOf, {
      note: 'Version 4 still checked this.',
    }),
    redlockSide('@sesamecare-oss/redlock', '`acquire` with the defaults.', acquireOf),
  ],
  ours: ourSide({ leaseMs: LEASE_MS }, (locks) => async () => {
    const lock = await locks.acquire('stock:42');
    lock.assertHeld();
    return lock;
  }),
};

const PAUSE_MS = 3_000;

interface Acquiring {
  readonly key: string;
  acquire(): Promise<unknown>;
}

/** The commands of a call that was given up still arrive: what do they leave behind? */
export const acquireTimesOut: Scenario<Acquiring> = {
  title: 'Asking for the lock times out',
  workload: `Redis stands still for ${PAUSE_MS / 1_000} s, longer than the library waits for an answer; then it goes on.`,
  limitMs: 40_000,
  async play({ key, acquire }, server) {
    const redis = await connect(server);
    server.pause();
    const call = settled(acquire(), 20_000);
    await sleep(PAUSE_MS);
    server.resume();
    const result = await call;
    await sleep(500);
    const ttl = await redis.pttl(key);
    if (result.state === 'fulfilled') {
      const words = `After ${result.afterMs} ms, the lock was there.`;
      return { holds: true, figure: 'acquired', words };
    }
    return ttl < 0
      ? { holds: true, figure: 'failed, nothing left', words: 'The key is free.' }
      : {
          holds: false,
          figure: `failed, key left for ${inSeconds(ttl)}`,
          words: 'The call failed, and nobody holds the key that it left.',
        };
  },
  peers: [
    universalSide(
      "`createLock` with a `timeout` of 500 ms for the adapter's commands; otherwise defaults.",
      30_000,
      (lock) => ({ key: 'stock:42', acquire: () => lock.acquire() }),
      { timeout: 500 },
    ),
  ],
  ours: ourSide({ waitMs: 500 }, (locks) => ({
    key: 'lock:{stock:42}',
    acquire: () => locks.acquire('stock:42'),
  })),
};

const FIRST_MS = 300;
const SECOND_MS = 5_000;
const RELEASED_AFTER_MS = 600;

interface Locks {
  hold(): Promise<() => Promise<unknown>>;
  /** @returns whether it was taken */
  wait(ms: number): Promise<boolean>;
}

export const oneOfTwoWaiters: Scenario<Locks> = {
  title: 'One of two waiters gives up',
  workload:
    `Two wait for one key. One gives up after ${FIRST_MS} ms; the key becomes free after ${RELEASED_AFTER_MS} ms. ` +
    'How long until the other gets it?',
  async play({ hold, wait }) {
    const release = await hold();
    const second = settled(wait(SECOND_MS), 2 * SECOND_MS);
    void wait(FIRST_MS).catch(() => {});
    await sleep(RELEASED_AFTER_MS);
    await release();
    const result = await second;
    const isTaken = result.state === 'fulfilled' && result.value;
    const lateMs = Math.max(0, result.afterMs - RELEASED_AFTER_MS);
    return {
      holds: isTaken && lateMs < 1_000,
      figure: isTaken ? `taken after ${lateMs} ms` : `not taken in ${SECOND_MS / 1_000} s`,
      words: isTaken
        ? 'The call that gives up does not affect the other.'
        : 'It waited in vain for a free lock.',
    };
  },
  peers: [
    {
      library: 'node-redisson',
      settings: '`tryLock` with the defaults (Pub/Sub).',
      async open(server) {
        const { TimeUnit } = await import('node-redisson');
        const redisson = await openRedisson(server);
        return {
          async hold() {
            const lock = redisson.getLock('stock:42');
            await lock.lock();
            return () => lock.unlock();
          },
          wait: (ms) => redisson.getLock('stock:42').tryLock(ms, true, TimeUnit.MILLISECONDS),
        };
      },
    },
  ],
  ours: ourSide({}, async (holder, server) => {
    const others = await ourLocks(server);
    return {
      async hold() {
        const lock = await holder.acquire('stock:42');
        return () => lock.release();
      },
      wait: async (waitMs) => (await others.acquire('stock:42', { waitMs })).isHeld,
    };
  }),
};

const SHORT_LEASE_MS = 500;
/** Longer than the lease: the first holder is too late. */
const STALL_MS = 800;

/** The tokens of two holders, in the order in which they took the lock. */
type Tokens = readonly [first: number, second: number];

export const orderOfTokens: Scenario<Tokens> = {
  title: 'Fencing tokens of a holder that stood still',
  workload:
    `The first caller stalls for ${STALL_MS} ms while it takes the lock, longer than the lock lasts. A second one takes ` +
    'it meanwhile.',
  async play([first, second]) {
    const holds = second > first;
    return {
      holds,
      figure: `${first}, then ${second}`,
      words: `The ${holds ? '' : 'former '}holder has the larger token.`,
    };
  },
  peers: [
    {
      library: 'simple-redis-mutex',
      settings: '`tryLock`. It sends SET and then INCR; the first client is delayed in between.',
      async open({ url }) {
        const { tryLock } = await import('simple-redis-mutex');
        const { createClient } = await import('redis');
        const [slow, other] = [createClient({ url }), createClient({ url })];
        await Promise.all([slow.connect(), other.connect()]);
        const increment = slow.incr.bind(slow);
        const delayed = async (key: string): Promise<number> => {
          await sleep(STALL_MS);
          return increment(key);
        };
        Object.defineProperty(slow, 'incr', { value: delayed });
        const late = tryLock(slow as never, 'stock:42', { timeout: SHORT_LEASE_MS });
        await sleep(SHORT_LEASE_MS + 100);
        const [, second] = await tryLock(other as never, 'stock:42', { timeout: SHORT_LEASE_MS });
        const [, first] = await late;
        return [first.fencingToken, second.fencingToken];
      },
    },
  ],
  ours: ourSide(
    { leaseMs: SHORT_LEASE_MS },
    async (slow, server) => {
      const other = await ourLocks(server);
      const first = await slow.acquire('stock:42', { renew: false });
      await sleep(STALL_MS);
      const second = await other.acquire('stock:42');
      return [first.fencingToken, second.fencingToken] as const;
    },
    `\`leaseMs: ${SHORT_LEASE_MS}\`. One script takes the lock and makes the token.`,
  ),
};
