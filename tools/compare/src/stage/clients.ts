import type { Redis, RedisOptions } from 'ioredis';
import type { Redisson as RedissonClient } from 'node-redisson';
import type { Lock as UniversalLock } from 'redlock-universal';
import type { PeerSide } from '../scenario.js';
import { connect, type RedisServer } from './redis.js';

/** The peers that are called and not decorated, each with a client of its own. */

/** What redlock 5 and the library that descends from it have in common. */
export interface Redlock {
  on(event: 'error', listen: (error: Error) => void): unknown;
  acquire(
    keys: string[],
    leaseMs: number,
  ): Promise<{ readonly expiration: number; release(): Promise<unknown> }>;
  using<T>(keys: string[], leaseMs: number, work: (signal: Signal) => Promise<T>): Promise<T>;
}

export interface Signal {
  readonly aborted: boolean;
}

export type RedlockName = 'redlock' | '@sesamecare-oss/redlock';

export async function openRedlock(
  library: RedlockName,
  clients: readonly Redis[],
  settings: { readonly retryCount?: number } = {},
): Promise<Redlock> {
  const redlock: Redlock =
    library === 'redlock'
      ? new (await import('redlock')).default(clients as never[], settings)
      : new (await import('@sesamecare-oss/redlock')).Redlock(clients as never[], settings);
  redlock.on('error', () => {});
  return redlock;
}

/** A side of one of the two. @param open what is made of it and of its client */
export function redlockSide<Tool>(
  library: RedlockName,
  settings: string,
  open: (redlock: Redlock, redis: Redis) => Tool | Promise<Tool>,
  { note, ...options }: RedisOptions & { readonly note?: string } = {},
): PeerSide<Tool> {
  return {
    library,
    settings,
    note,
    async open(server) {
      const redis = await connect(server, options);
      return open(await openRedlock(library, [redis]), redis);
    },
  };
}

/** A side of redlock-universal. @param open what is made of a lock of this time */
export function universalSide<Tool>(
  settings: string,
  ttl: number,
  open: (lock: UniversalLock) => Tool | Promise<Tool>,
  { note, ...options }: { readonly note?: string; readonly timeout?: number } = {},
): PeerSide<Tool> {
  return {
    library: 'redlock-universal',
    settings,
    note,
    async open(server) {
      const { createLock, IoredisAdapter } = await import('redlock-universal');
      const adapter = new IoredisAdapter(await connect(server), options);
      return open(createLock({ adapter, key: 'stock:42', ttl }));
    },
  };
}

export async function openRedisson(
  { port }: RedisServer,
  leaseMs?: number,
): Promise<RedissonClient> {
  const { Redisson } = await import('node-redisson');
  return new Redisson({
    redis: { options: { host: '127.0.0.1', port } },
    ...(leaseMs !== undefined && { lockWatchdogTimeout: BigInt(leaseMs) }),
  });
}

/** Work under a `Mutex` of redis-semaphore. */
export async function withMutex(
  redis: Redis,
  key: string,
  work: () => Promise<void>,
): Promise<void> {
  const { Mutex } = await import('redis-semaphore');
  const mutex = new Mutex(redis, key);
  await mutex.acquire();
  try {
    await work();
  } finally {
    await mutex.release();
  }
}
