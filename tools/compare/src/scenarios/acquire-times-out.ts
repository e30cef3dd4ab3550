import { setTimeout as sleep } from 'node:timers/promises';
import type { Outcome, Scenario } from '../scenario.js';
import { ourLocks } from '../stage/our-locks.js';
import { connect, RedisServer } from '../stage/redis.js';
import { settled } from '../stage/settled.js';

const PAUSE_MS = 3_000;

/** The commands of a call that was given up still arrive: what do they leave behind? */
async function leftBehind(
  server: RedisServer,
  key: string,
  acquire: () => Promise<unknown>,
): Promise<Outcome> {
  const redis = await connect(server);
  server.pause();
  const call = settled(acquire(), 20_000);
  await sleep(PAUSE_MS);
  server.resume();
  const result = await call;
  await sleep(500);
  const ttl = await redis.pttl(key);
  if (result.state === 'fulfilled') {
    return {
      holds: true,
      figure: 'acquired',
      words: `After ${result.afterMs} ms, the lock was there.`,
    };
  }
  return {
    holds: ttl < 0,
    figure: ttl < 0 ? 'failed, nothing left' : `failed, key left for ${(ttl / 1_000).toFixed(1)} s`,
    words: ttl < 0 ? 'The key is free.' : 'The call failed, and nobody holds the key that it left.',
  };
}

export const scenario: Scenario = {
  title: 'Asking for the lock times out',
  workload: `Redis stands still for ${PAUSE_MS / 1_000} s, longer than the library waits for an answer; then it goes on.`,
  limitMs: 40_000,
  peers: [
    {
      library: 'redlock-universal',
      settings:
        "`createLock` with a `timeout` of 500 ms for the adapter's commands; otherwise defaults.",
      async run() {
        const { createLock, IoredisAdapter } = await import('redlock-universal');
        const server = await RedisServer.start();
        const adapter = new IoredisAdapter(await connect(server), { timeout: 500 });
        const lock = createLock({ adapter, key: 'stock:42', ttl: 30_000 });
        return leftBehind(server, 'stock:42', () => lock.acquire());
      },
    },
  ],
  ours: {
    settings: '`waitMs: 500`.',
    async run() {
      const server = await RedisServer.start();
      const locks = await ourLocks(server);
      return leftBehind(server, 'lock:{stock:42}', () =>
        locks.acquire('stock:42', { waitMs: 500 }),
      );
    },
  },
};
