import { withDefaults } from '../../core/option.js';
import { systemClock } from '../../core/time/clock.js';
import { openRedis } from '../../redis/connection/server/open-redis.js';
import { requiredReplicas } from '../../redis/connection/server/required-replicas.js';
import { RedisLockStore } from '../../redis/redis-lock-store.js';
import { RedissonLockStore } from '../../redis/redisson/redisson-lock-store.js';
import type { EngineFactory } from './engine-factory.js';
import { MODULE_OPTIONS } from './module-option-table.js';

/** Makes the engine that keeps its leases in Redis. */
export const redisEngine: EngineFactory = (moduleOptions, supplies, Engine) => {
  const { layout, keyPrefix, startMs, fenceKeepMs, waitReplicas, renewFrom } = withDefaults(
    MODULE_OPTIONS,
    moduleOptions,
  );
  const redis = openRedis(moduleOptions.connection);
  const Store = layout === 'redisson' ? RedissonLockStore : RedisLockStore;
  const store = new Store({
    client: redis.client,
    clock: systemClock,
    keyPrefix,
    leaseMs: supplies.options.leaseMs,
    startMs,
    fenceKeepMs,
    replicas: requiredReplicas(waitReplicas),
    renewFrom,
    closeClient: () => redis.close(),
  });
  return new Engine({ ...supplies, store });
};
