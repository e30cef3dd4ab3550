import { setTimeout as sleep } from 'node:timers/promises';
import type { Scenario } from '../scenario.js';
import { openRedisson } from '../stage/clients.js';
import { ourLocks } from '../stage/our-locks.js';
import { settled } from '../stage/settled.js';

const FIRST_MS = 300;
const SECOND_MS = 5_000;
const RELEASED_AFTER_MS = 600;

interface Locks {
  hold(): Promise<() => Promise<unknown>>;
  /** @returns whether it was taken */
  wait(ms: number): Promise<boolean>;
}

export const scenario: Scenario<Locks> = {
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
  ours: {
    settings: 'The defaults.',
    async open(server) {
      const [holder, others] = [await ourLocks(server), await ourLocks(server)];
      return {
        async hold() {
          const lock = await holder.acquire('stock:42');
          return () => lock.release();
        },
        wait: async (waitMs) => (await others.acquire('stock:42', { waitMs })).isHeld,
      };
    },
  },
};
