import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { type Adapter, LEASE_MS } from './adapter.js';
import { onClient } from './peers.js';

const RELEASE =
  "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0";

/** Two round trips and nothing else: the least that a lock on one Redis can cost if it is to be safe to release. */
export const rawFloor: Adapter = {
  id: 'raw',
  name: 'raw floor',
  kind: 'floor',
  settings:
    '`SET key token NX PX 30000`, then EVALSHA of an owner-checked DEL. A busy key is retried after 1 to 3 ms.',
  open: onClient(async (redis) => {
    const sha = (await redis.script('LOAD', RELEASE)) as string;
    const process = randomUUID();
    let tokens = 0;
    return async (key) => {
      const token = `${process}:${(tokens += 1)}`;
      while ((await redis.set(key, token, 'PX', LEASE_MS, 'NX')) === null) {
        await sleep(1 + Math.random() * 2);
      }
      return () => redis.evalsha(sha, 1, key, token);
    };
  }),
};
