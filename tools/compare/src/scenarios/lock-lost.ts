import { setTimeout as sleep } from 'node:timers/promises';
import type { Scenario } from '../scenario.js';
import { type Held, holdingMutex, holdingRedisson } from '../stage/held.js';
import { ourLocks } from '../stage/our-locks.js';
import { connect } from '../stage/redis.js';

const LEASE_MS = 1_000;

export const scenario: Scenario<Pick<Held, 'isLost'>> = {
  title: 'The lock is lost while it is held',
  workload: `The key of a lock of ${LEASE_MS} ms is deleted while it is held, as by a failover.`,
  async play({ isLost }, server) {
    await (await connect(server)).flushall();
    await sleep(2 * LEASE_MS);
    return isLost()
      ? {
          holds: true,
          figure: 'the holder is told',
          words: 'The process lives, and its code can check.',
        }
      : { holds: false, figure: 'nobody is told', words: 'The holder is not told.' };
  },
  peers: [
    {
      library: 'redis-semaphore',
      settings: '`Mutex` with the defaults.',
      note: 'As its README says; an `onLockLost` of your own is called instead.',
      open: holdingMutex(LEASE_MS),
    },
    {
      library: 'node-redisson',
      settings: '`lock()` with a watchdog of the same time.',
      open: holdingRedisson(LEASE_MS),
    },
  ],
  ours: {
    settings: `\`leaseMs: ${LEASE_MS}\`.`,
    async open(server) {
      const lock = await (await ourLocks(server, { leaseMs: LEASE_MS })).acquire('stock:42');
      return { isLost: () => lock.signal.aborted && !lock.isHeld };
    },
  },
};
