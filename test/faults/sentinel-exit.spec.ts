/** ioredis keeps timers for connections that are closed twice, and they keep a process alive. */
import { describe, expect } from '@jest/globals';
import { RedisReplicaSet } from 'dev-servers';
import { LockEngine } from '../../libs/nestjs-locked/src/core/engine/lock-engine.js';
import { resolveServiceOptions } from '../../libs/nestjs-locked/src/core/resolved.options.js';
import { systemClock } from '../../libs/nestjs-locked/src/core/time/clock.js';
import { openRedis } from '../../libs/nestjs-locked/src/redis/connection/server/open-redis.js';
import { RedisLockStore } from '../../libs/nestjs-locked/src/redis/redis-lock-store.js';
import { afterTest } from '../support/after-test.js';
import { eventually } from '../support/eventually.js';
import { fault } from '../support/fault-report.js';
import { uniqueKey } from '../support/unique-key.js';

const LEASE_MS = 3_000;
/** Less than the connection time-out of ioredis for sentinels, which is 2 s. */
const SOON_MS = 1_000;

describe('three sentinels', () => {
  fault('closing', 'leaves no timer behind that keeps the process alive', async (measure) => {
    const set = await RedisReplicaSet.start();
    afterTest(() => set.stop());
    const before = timers();
    const redis = openRedis({ sentinels: [...set.sentinels], name: set.name });
    const store = new RedisLockStore({
      client: redis.client,
      clock: systemClock,
      keyPrefix: 'lock:',
      leaseMs: LEASE_MS,
      closeClient: () => redis.close(),
    });
    const options = resolveServiceOptions({ leaseMs: LEASE_MS, waitMs: 30_000 });
    const engine = new LockEngine({ store, options, report: () => {} });
    await engine.open();
    await (await engine.acquire(uniqueKey())).release();

    await engine.close(0);
    const from = performance.now();
    await eventually(() => expect(timers()).toBeLessThanOrEqual(before), SOON_MS);
    measure('gone after', performance.now() - from, 'ms');
  });
});

/** How many timers keep this process alive. */
function timers(): number {
  return process.getActiveResourcesInfo().filter((name) => name === 'Timeout').length;
}
