import { setTimeout as sleep } from 'node:timers/promises';
import type { PeerSide, Scenario } from '../scenario.js';
import { openRedlock, type RedlockName } from '../stage/clients.js';
import { ourLocks } from '../stage/our-locks.js';
import { connect } from '../stage/redis.js';
import { settled } from '../stage/settled.js';

const LEASE_MS = 1_000;
const PAUSE_MS = 1_500;

/** Takes the lock, which says how long it is held. */
type Acquire = () => Promise<{ remainingMs(): number }>;

export const scenario: Scenario<Acquire> = {
  title: 'The answer comes later than the lease ends',
  workload: `Redis stands still for ${PAUSE_MS} ms while a lock of ${LEASE_MS} ms is requested.`,
  async play(acquire, server) {
    server.pause();
    const call = settled(acquire(), 10_000);
    await sleep(PAUSE_MS);
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
  peers: [redlock('redlock', 'Version 4 still checked this.'), redlock('@sesamecare-oss/redlock')],
  ours: {
    settings: `\`leaseMs: ${LEASE_MS}\`.`,
    async open(server) {
      const locks = await ourLocks(server);
      return async () => {
        const lock = await locks.acquire('stock:42', { leaseMs: LEASE_MS });
        lock.assertHeld();
        return lock;
      };
    },
  },
};

function redlock(library: RedlockName, note?: string): PeerSide<Acquire> {
  return {
    library,
    settings: '`acquire` with the defaults.',
    note,
    async open(server) {
      const opened = await openRedlock(library, [await connect(server)]);
      return async () => {
        const { expiration } = await opened.acquire(['stock:42'], LEASE_MS);
        return { remainingMs: () => expiration - Date.now() };
      };
    },
  };
}
