import { LockConfigError } from '../../core/lock.errors.js';
import { withDefaults } from '../../core/option.js';
import { systemClock } from '../../core/time/clock.js';
import { openRedis } from '../../redis/connection/server/open-redis.js';
import { requiredReplicas } from '../../redis/connection/server/required-replicas.js';
import { isQuorum, openQuorum } from '../../redis/quorum/open-quorum.js';
import { QuorumLockStore } from '../../redis/quorum/quorum-lock-store.js';
import { RedisLockStore } from '../../redis/redis-lock-store.js';
import { RedissonLockStore } from '../../redis/redisson/redisson-lock-store.js';
import type { EngineFactory } from './engine-factory.js';
import { MODULE_OPTIONS } from './module-option-table.js';
import type { RedisLockModuleOptions } from './redis-lock.options.js';

/** Makes the engine that keeps its leases in Redis. */
export const redisEngine: EngineFactory = (moduleOptions, supplies, Engine) =>
  new Engine({ ...supplies, store: newStore(moduleOptions, supplies.options.leaseMs) });

/** @throws LockConfigError */
function newStore(
  moduleOptions: RedisLockModuleOptions,
  leaseMs: number,
): RedisLockStore | QuorumLockStore {
  const { connection } = moduleOptions;
  const { layout, keyPrefix, startMs, fenceKeepMs, waitReplicas, renewFrom } = withDefaults(
    MODULE_OPTIONS,
    moduleOptions,
  );
  const replicas = requiredReplicas(waitReplicas);
  const clock = systemClock;
  if (!isQuorum(connection)) {
    const redis = openRedis(connection);
    const { client } = redis;
    const closeClient = (): Promise<void> => redis.close();
    const options = {
      client,
      clock,
      keyPrefix,
      leaseMs,
      startMs,
      fenceKeepMs,
      replicas,
      renewFrom,
    };
    const Store = layout === 'redisson' ? RedissonLockStore : RedisLockStore;
    return new Store({ ...options, closeClient });
  }
  if (layout === 'redisson')
    throw notWithQuorum("layout: 'redisson'", 'Redisson keeps a lock on one server');
  if (replicas !== undefined)
    throw notWithQuorum('waitReplicas', 'its nodes have no replicas that count');
  if (renewFrom === 'worker')
    throw notWithQuorum("renewFrom: 'worker'", 'its leases are renewed by the main thread alone');
  const { clients, rejoinAfterMs, closeClients } = openQuorum(connection);
  const options = { clients, clock, keyPrefix, leaseMs, startMs, fenceKeepMs, rejoinAfterMs };
  const store = new QuorumLockStore({ ...options, closeClients });
  const refusal = store.refusalOf({ mode: 'exclusive' }, leaseMs);
  if (refusal !== undefined) throw refusal;
  return store;
}

function notWithQuorum(option: string, because: string): LockConfigError {
  return new LockConfigError(
    `${option} cannot be used with connection: { quorum }: ${because}; leave it out, or name one server as connection`,
  );
}
