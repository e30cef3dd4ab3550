import type { Redis } from 'ioredis';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Outcome, Scenario } from '../scenario.js';
import { ourLocks } from '../stage/our-locks.js';
import { connect, RedisServer } from '../stage/redis.js';

const LEASE_MS = 1_000;
const HELD_MS = 1_500;
const WORK_MS = 600;

async function outcomeOf(
  redis: Redis,
  key: string,
  call: (work: (signal: { readonly aborted: boolean }) => Promise<boolean>) => Promise<boolean>,
): Promise<Outcome> {
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
}

export const scenario: Scenario = {
  title: 'The wait was longer than the lease',
  workload: `A call waits ${HELD_MS} ms for a lock of ${LEASE_MS} ms; then its work takes ${WORK_MS} ms.`,
  peers: [
    {
      library: 'redlock',
      settings: '`using` with the defaults.',
      note: 'Fixed on its main branch, in no release. @sesamecare-oss/redlock has the fix.',
      async run() {
        const { default: Redlock } = await import('redlock');
        const redis = await connect(await RedisServer.start());
        await redis.set('stock:42', 'somebody', 'PX', HELD_MS);
        const redlock = new Redlock([redis as never]);
        redlock.on('error', () => {});
        return outcomeOf(redis, 'stock:42', (work) => redlock.using(['stock:42'], LEASE_MS, work));
      },
    },
    {
      library: '@sesamecare-oss/redlock',
      settings: '`using` with the defaults.',
      async run() {
        const { Redlock } = await import('@sesamecare-oss/redlock');
        const redis = await connect(await RedisServer.start());
        await redis.set('stock:42', 'somebody', 'PX', HELD_MS);
        const redlock = new Redlock([redis]);
        redlock.on('error', () => {});
        return outcomeOf(redis, 'stock:42', (work) =>
          redlock.using(['stock:42'], LEASE_MS, (signal) => work(signal)),
        );
      },
    },
  ],
  ours: {
    settings: `\`leaseMs: ${LEASE_MS}\`.`,
    async run() {
      const server = await RedisServer.start();
      const redis = await connect(server);
      await redis.set('lock:{stock:42}', 'somebody', 'PX', HELD_MS);
      const locks = await ourLocks(server, { leaseMs: LEASE_MS });
      return outcomeOf(redis, 'lock:{stock:42}', (work) =>
        locks.withLock('stock:42', ({ signal }) => work(signal)),
      );
    },
  },
};
