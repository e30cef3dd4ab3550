import type { Redis } from 'ioredis';
import { LockEngine } from '../../libs/nestjs-locked/src/core/engine/lock-engine.js';
import type { LockServiceOptions } from '../../libs/nestjs-locked/src/core/lock.options.js';
import type { LockEvent } from '../../libs/nestjs-locked/src/core/lock-events.js';
import { resolveServiceOptions } from '../../libs/nestjs-locked/src/core/resolved.options.js';
import { type Clock, systemClock } from '../../libs/nestjs-locked/src/core/time/clock.js';
import type { LockLayout } from '../../libs/nestjs-locked/src/nest/module/redis-lock.options.js';
import {
  openRedis,
  type RedisConnectionOptions,
} from '../../libs/nestjs-locked/src/redis/connection/server/open-redis.js';
import {
  RedisLockStore,
  type RenewFrom,
} from '../../libs/nestjs-locked/src/redis/redis-lock-store.js';
import { RedissonLockStore } from '../../libs/nestjs-locked/src/redis/redisson/redisson-lock-store.js';
import { afterTest } from './after-test.js';
import { connectAdmin } from './connect-admin.js';

export interface OpenedLocks {
  readonly engine: LockEngine;
  /** The events of the engine, in order, without those that a busy machine causes. */
  readonly events: readonly LockEvent[];
  readonly store: RedisLockStore;
  /** The inbox channel of the store on a single server. */
  readonly inbox: string;
}

const OF_BUSY_MACHINE: readonly LockEvent['type'][] = [
  'store-awaited',
  'store-found',
  'renewed-late',
];

/** Whether an event may come in any test: each start has to wait on a busy machine, and event loops are blocked. */
export function isOfBusyMachine({ type }: LockEvent): boolean {
  return OF_BUSY_MACHINE.includes(type);
}

export type OpenOptions = LockServiceOptions & {
  readonly clock?: Clock;
  readonly renewFrom?: RenewFrom;
  readonly layout?: LockLayout;
};

/**
 * Opens a lock service as the module does, but without Nest, and collects the events it would log. Closed after the
 * test.
 */
export function openLocks(url: string, options?: OpenOptions): Promise<OpenedLocks> {
  return openLocksOn(url, options);
}

/** Opens a lock service on any kind of connection. Closed after the test. */
export async function openLocksOn(
  connection: RedisConnectionOptions,
  { clock = systemClock, renewFrom, layout, ...options }: OpenOptions = {},
): Promise<OpenedLocks> {
  const resolved = resolveServiceOptions(options);
  const redis = openRedis(connection);
  const events: LockEvent[] = [];
  const Store = layout === 'redisson' ? RedissonLockStore : RedisLockStore;
  const store = new Store({
    client: redis.client,
    clock,
    keyPrefix: 'lock:',
    leaseMs: resolved.leaseMs,
    renewFrom,
    closeClient: () => redis.close(),
  });
  const report = (event: LockEvent): void => {
    if (!isOfBusyMachine(event)) events.push(event);
  };
  const engine = new LockEngine({ store, options: resolved, report, clock });
  afterTest(() => engine.close(0));
  await engine.open();
  return { engine, events, store, inbox: `lock:inbox:${store.processId}` };
}

/** A connection for inspecting and manipulating a server. Closed after the test. */
export function openAdmin(url: string): Redis {
  const redis = connectAdmin(url);
  afterTest(() => redis.disconnect());
  return redis;
}
