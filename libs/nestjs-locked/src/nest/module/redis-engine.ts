import type { LockEngine, LockEngineOptions } from '../../core/engine/lock-engine.js';
import { withDefaults } from '../../core/option.js';
import { systemClock } from '../../core/time/clock.js';
import { openRedis } from '../../redis/connection/open-redis.js';
import { requiredReplicas } from '../../redis/connection/required-replicas.js';
import { RedisLockStore } from '../../redis/redis-lock-store.js';
import { MODULE_OPTIONS } from './module-option-table.js';
import type { RedisLockModuleOptions } from './redis-lock.options.js';

/** Makes the engine of a lock module, without connecting to anything yet. The options have been checked. */
export type EngineFactory = (
  moduleOptions: RedisLockModuleOptions,
  supplies: Omit<LockEngineOptions, 'store' | 'clock'>,
  /** The class to make it of: of the copy of this package in which the module is. */
  Engine: typeof LockEngine,
) => LockEngine;

/**
 * Where every lock module gets its engine from. It is a provider of its own so that tests can override it: then nothing
 * connects to Redis, and the options of the application stay in force.
 */
export const ENGINE_FACTORY = Symbol.for('nestjs-locked/EngineFactory');

/** The engine whose leases are in Redis. */
export const redisEngine: EngineFactory = (moduleOptions, supplies, Engine) => {
  const { keyPrefix, startMs, fenceKeepMs, waitReplicas } = withDefaults(
    MODULE_OPTIONS,
    moduleOptions,
  );
  const redis = openRedis(moduleOptions.connection);
  const store = new RedisLockStore({
    client: redis.client,
    clock: systemClock,
    keyPrefix,
    leaseMs: supplies.options.leaseMs,
    startMs,
    fenceKeepMs,
    replicas: requiredReplicas(waitReplicas),
    closeClient: () => redis.close(),
  });
  return new Engine({ ...supplies, store });
};
