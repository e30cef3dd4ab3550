import { setTimeout as sleep } from 'node:timers/promises';
import type { Scenario } from '../scenario.js';
import { type Held, holdingMutex, usingRedlock, usingUniversal } from '../stage/held.js';
import { ourLocks } from '../stage/our-locks.js';
import { inSeconds } from '../stage/settled.js';

const LEASE_MS = 2_000;
const WATCHED_MS = 8_000;

export const scenario: Scenario<Pick<Held, 'isLost'>> = {
  title: 'Redis hangs while the lock is held',
  workload: `A lock with a lease of ${LEASE_MS / 1_000} s and automatic renewal; Redis is stopped (SIGSTOP) after 100 ms.`,
  async play(held, server) {
    await sleep(100);
    server.pause();
    const from = performance.now();
    while (!held.isLost() && performance.now() - from < WATCHED_MS) await sleep(10);
    const ms = performance.now() - from;
    if (!held.isLost()) {
      return {
        holds: false,
        figure: `no abort in ${WATCHED_MS / 1_000} s`,
        words: `${(WATCHED_MS - LEASE_MS) / 1_000} s after the lock expired, the holder had not been told.`,
      };
    }
    // The last renewal may have been just before Redis stopped.
    const holds = ms <= LEASE_MS + 200;
    return {
      holds,
      figure: `abort after ${inSeconds(ms)}`,
      words: holds
        ? 'The holder was told before anybody else could take the lock.'
        : `The holder was told ${inSeconds(ms - LEASE_MS)} after its lock had expired.`,
    };
  },
  peers: [
    {
      library: 'redlock',
      settings: '`using` with the defaults; its README tells the routine to check the AbortSignal.',
      open: usingRedlock('redlock', LEASE_MS),
    },
    {
      library: '@sesamecare-oss/redlock',
      settings: '`using` with the defaults.',
      open: usingRedlock('@sesamecare-oss/redlock', LEASE_MS),
    },
    {
      library: 'redis-semaphore',
      settings: '`Mutex` with an `onLockLost`, and `isAcquired`, which its README checks.',
      open: holdingMutex(LEASE_MS, 'listen'),
    },
    {
      library: 'redlock-universal',
      settings: '`using` with the defaults (each command has 5 s).',
      open: usingUniversal(LEASE_MS),
    },
  ],
  ours: {
    settings: `\`leaseMs: ${LEASE_MS}\`.`,
    async open(server) {
      const lock = await (await ourLocks(server, { leaseMs: LEASE_MS })).acquire('stock:42');
      return { isLost: () => lock.signal.aborted };
    },
  },
};
