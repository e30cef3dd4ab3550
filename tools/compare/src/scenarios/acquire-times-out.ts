import { setTimeout as sleep } from 'node:timers/promises';
import type { Scenario } from '../scenario.js';
import { openUniversal } from '../stage/clients.js';
import { ourLocks } from '../stage/our-locks.js';
import { connect } from '../stage/redis.js';
import { inSeconds, settled } from '../stage/settled.js';

const PAUSE_MS = 3_000;

interface Acquiring {
  readonly key: string;
  acquire(): Promise<unknown>;
}

/** The commands of a call that was given up still arrive: what do they leave behind? */
export const scenario: Scenario<Acquiring> = {
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
    {
      library: 'redlock-universal',
      settings:
        "`createLock` with a `timeout` of 500 ms for the adapter's commands; otherwise defaults.",
      async open(server) {
        const lock = await openUniversal(server, 30_000, { timeout: 500 });
        return { key: 'stock:42', acquire: () => lock.acquire() };
      },
    },
  ],
  ours: {
    settings: '`waitMs: 500`.',
    async open(server) {
      const locks = await ourLocks(server, { waitMs: 500 });
      return { key: 'lock:{stock:42}', acquire: () => locks.acquire('stock:42') };
    },
  },
};
