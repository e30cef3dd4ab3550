import { setTimeout as sleep } from 'node:timers/promises';
import type { Scenario } from '../scenario.js';
import { ourLocks } from '../stage/our-locks.js';

const LEASE_MS = 500;
/** Longer than the lease: the first holder is too late. */
const STALL_MS = 800;

/** The tokens of two holders, in the order in which they took the lock. */
type Tokens = readonly [first: number, second: number];

export const scenario: Scenario<Tokens> = {
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
        const late = tryLock(slow as never, 'stock:42', { timeout: LEASE_MS });
        await sleep(LEASE_MS + 100);
        const [, second] = await tryLock(other as never, 'stock:42', { timeout: LEASE_MS });
        const [, first] = await late;
        return [first.fencingToken, second.fencingToken];
      },
    },
  ],
  ours: {
    settings: `\`leaseMs: ${LEASE_MS}\`. One script takes the lock and makes the token.`,
    async open(server) {
      const [slow, other] = [await ourLocks(server), await ourLocks(server)];
      const first = await slow.acquire('stock:42', { leaseMs: LEASE_MS, renew: false });
      await sleep(STALL_MS);
      const second = await other.acquire('stock:42', { leaseMs: LEASE_MS });
      return [first.fencingToken, second.fencingToken];
    },
  },
};
