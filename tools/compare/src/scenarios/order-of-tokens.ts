import { setTimeout as sleep } from 'node:timers/promises';
import type { Outcome, Scenario } from '../scenario.js';
import { ourLocks } from '../stage/our-locks.js';
import { RedisServer } from '../stage/redis.js';

const LEASE_MS = 500;
/** Longer than the lease: the first holder is too late. */
const STALL_MS = 800;

/** The later a holder got the lock, the greater its token is to be. */
function judge(first: number, second: number): Outcome {
  return {
    holds: second > first,
    figure: `${first}, then ${second}`,
    words:
      second > first
        ? 'The holder has the larger token.'
        : 'The former holder has the larger token.',
  };
}

export const scenario: Scenario = {
  title: 'Fencing tokens of a holder that stood still',
  workload:
    `The first caller stalls for ${STALL_MS} ms while it takes the lock, longer than the lock lasts. A second one takes ` +
    'it meanwhile.',
  peers: [
    {
      library: 'simple-redis-mutex',
      settings: '`tryLock`. It sends SET and then INCR; the first client is delayed in between.',
      async run() {
        const { tryLock } = await import('simple-redis-mutex');
        const { createClient } = await import('redis');
        const { url } = await RedisServer.start();
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
        return judge(first.fencingToken, second.fencingToken);
      },
    },
  ],
  ours: {
    settings: `\`leaseMs: ${LEASE_MS}\`. One script takes the lock and makes the token.`,
    async run() {
      const server = await RedisServer.start();
      const [slow, other] = [await ourLocks(server), await ourLocks(server)];
      const first = await slow.acquire('stock:42', { leaseMs: LEASE_MS, renew: false });
      await sleep(STALL_MS);
      const second = await other.acquire('stock:42', { leaseMs: LEASE_MS });
      return judge(first.fencingToken, second.fencingToken);
    },
  },
};
