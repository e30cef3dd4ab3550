import { setTimeout as sleep } from 'node:timers/promises';
import type { Outcome, Scenario } from '../scenario.js';
import { ourLocks } from '../stage/our-locks.js';
import { connect, RedisServer } from '../stage/redis.js';
import { settled } from '../stage/settled.js';

const LEASE_MS = 1_000;
const PAUSE_MS = 1_500;

/** `acquire` says until when the lock is held. */
async function acquireLate(
  server: RedisServer,
  acquire: () => Promise<{ remainingMs(): number }>,
): Promise<Outcome> {
  server.pause();
  const call = settled(acquire(), 10_000);
  await sleep(PAUSE_MS);
  server.resume();
  const result = await call;
  if (result.state !== 'fulfilled') {
    const words =
      result.state === 'rejected' ? `"${result.error.message}"` : 'There was no answer.';
    return { holds: result.state === 'rejected', figure: 'refused', words };
  }
  const remaining = Math.round(result.value.remainingMs());
  return {
    holds: remaining > 0,
    figure: remaining > 0 ? `held, ${remaining} ms left` : `held, expired for ${-remaining} ms`,
    words:
      remaining > 0
        ? 'The lock was still valid when it was handed out.'
        : 'The lock was handed out after it had expired: somebody else may hold it.',
  };
}

export const scenario: Scenario = {
  title: 'The answer comes later than the lease ends',
  workload: `Redis stands still for ${PAUSE_MS} ms while a lock of ${LEASE_MS} ms is requested.`,
  peers: [
    {
      library: 'redlock',
      settings: '`acquire` with the defaults.',
      note: 'Version 4 still checked this.',
      async run() {
        const { default: Redlock } = await import('redlock');
        const server = await RedisServer.start();
        const redlock = new Redlock([(await connect(server)) as never]);
        return acquireLate(server, async () => {
          const lock = await redlock.acquire(['stock:42'], LEASE_MS);
          return { remainingMs: () => lock.expiration - Date.now() };
        });
      },
    },
    {
      library: '@sesamecare-oss/redlock',
      settings: '`acquire` with the defaults.',
      async run() {
        const { Redlock } = await import('@sesamecare-oss/redlock');
        const server = await RedisServer.start();
        const redlock = new Redlock([await connect(server)]);
        return acquireLate(server, async () => {
          const lock = await redlock.acquire(['stock:42'], LEASE_MS);
          return { remainingMs: () => lock.expiration - Date.now() };
        });
      },
    },
  ],
  ours: {
    settings: `\`leaseMs: ${LEASE_MS}\`.`,
    async run() {
      const server = await RedisServer.start();
      const locks = await ourLocks(server);
      return acquireLate(server, async () => {
        const lock = await locks.acquire('stock:42', { leaseMs: LEASE_MS });
        lock.assertHeld();
        return lock;
      });
    },
  },
};
