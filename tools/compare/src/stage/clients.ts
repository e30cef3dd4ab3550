import type { Redis, RedisOptions } from 'ioredis';
import type { Redisson as RedissonClient } from 'node-redisson';
import type { RedisServer } from './redis.js';

/** What redlock 5 and the library that descends from it have in common. */
export interface Redlock {
  on(event: 'error', listen: (error: Error) => void): unknown;
  acquire(keys: string[], leaseMs: number): Promise<RedlockLock>;
  using<T>(keys: string[], leaseMs: number, work: () => Promise<T>): Promise<T>;
}

interface RedlockLock {
  readonly expiration: number;
  extend(leaseMs: number): Promise<RedlockLock>;
  release(): Promise<unknown>;
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

export async function openRedisson(
  { port }: RedisServer,
  leaseMs?: number,
  settings: object = {},
  client: RedisOptions = {},
): Promise<RedissonClient> {
  const { Redisson } = await import('node-redisson');
  return new Redisson({
    redis: { options: { host: '127.0.0.1', port, ...client } },
    ...(leaseMs !== undefined && { lockWatchdogTimeout: BigInt(leaseMs) }),
    ...settings,
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
