import { LockEngine } from '../../libs/nestjs-locked/src/core/engine/lock-engine.js';
import type { LockServiceOptions } from '../../libs/nestjs-locked/src/core/lock.options.js';
import type { LockEvent } from '../../libs/nestjs-locked/src/core/lock-events.js';
import { resolveServiceOptions } from '../../libs/nestjs-locked/src/core/resolved.options.js';
import { systemClock } from '../../libs/nestjs-locked/src/core/time/clock.js';
import {
  openRedis,
  type RedisConnectionOptions,
} from '../../libs/nestjs-locked/src/redis/connection/server/open-redis.js';
import {
  requiredReplicas,
  type WaitReplicas,
} from '../../libs/nestjs-locked/src/redis/connection/server/required-replicas.js';
import { RedisLockStore } from '../../libs/nestjs-locked/src/redis/redis-lock-store.js';
import { afterTest } from './after-test.js';
import { isOfBusyMachine } from './open-locks.js';
import { StoreEvents } from './store-events.js';

export interface ReplicatedOptions extends LockServiceOptions {
  readonly waitReplicas?: number | WaitReplicas;
  readonly startMs?: number;
}

function newStore(connection: RedisConnectionOptions, options: ReplicatedOptions, leaseMs: number) {
  const redis = openRedis(connection);
  const { waitReplicas = 1, startMs } = options;
  return new RedisLockStore({
    client: redis.client,
    clock: systemClock,
    keyPrefix: 'lock:',
    leaseMs,
    ...(startMs === undefined ? {} : { startMs }),
    replicas: requiredReplicas(waitReplicas),
    closeClient: () => redis.close(),
  });
}

/**
 * Opens a store whose leases count once `waitReplicas` replicas, by default one, have them. Closed after the test.
 */
export async function openReplicatedStore(
  connection: RedisConnectionOptions,
  leaseMs: number,
  options: ReplicatedOptions = {},
) {
  const store = newStore(connection, options, leaseMs);
  const lost: string[] = [];
  const events = new StoreEvents();
  events.storeLost = (cause?: Error) => void lost.push(String(cause));
  afterTest(() => store.close());
  await store.open(events);
  let count = 0;
  const token = (): string => `${store.processId}:${++count}`;
  return {
    store,
    events,
    /** The causes of all `storeLost` events. */
    lost,
    token,
    acquire: (key: string, own = token(), nowait = true) =>
      store.acquire({ key, token: own, leaseMs, nowait }),
    renew: (key: string, own: string) =>
      Promise.all(store.renew([{ key, token: own, leaseMs, used: 0, reserves: 0 }])),
    release: (key: string, own: string) => store.release({ key, token: own, used: 0 }),
  };
}

/**
 * Opens a lock service whose leases count once `waitReplicas` replicas, by default one, have them. Closed after the
 * test.
 */
export async function openReplicatedLocks(
  connection: RedisConnectionOptions,
  options: ReplicatedOptions = {},
) {
  const resolved = resolveServiceOptions(options, { waitReplicas: {}, startMs: {} });
  const store = newStore(connection, options, resolved.leaseMs);
  const events: LockEvent[] = [];
  const engine = new LockEngine({
    store,
    options: resolved,
    report: (event) => {
      if (!isOfBusyMachine(event)) events.push(event);
    },
  });
  await engine.open();
  afterTest(() => engine.close(0));
  return { engine, store, events };
}
