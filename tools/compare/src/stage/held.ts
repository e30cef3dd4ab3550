import {
  openRedisson,
  openRedlock,
  openUniversal,
  type RedlockName,
  type Signal,
} from './clients.js';
import { connect, type RedisServer } from './redis.js';

/** A lock that is held from now on, and renewed by its library. */
export interface Held {
  readonly key: string;
  /** Whether the holder has been told that it is lost. */
  isLost(): boolean;
}

type Hold = (server: RedisServer) => Promise<Held>;

const NEVER = new Promise<never>(() => {});

export function usingRedlock(library: RedlockName, leaseMs: number): Hold {
  return async (server) => {
    const redlock = await openRedlock(library, [await connect(server)]);
    return whileUsing((work) => redlock.using(['stock:42'], leaseMs, work));
  };
}

export function usingUniversal(leaseMs: number): Hold {
  return async (server) => {
    const lock = await openUniversal(server, leaseMs);
    return whileUsing((work) => lock.using(work));
  };
}

async function whileUsing(
  using: (work: (signal: Signal) => Promise<never>) => Promise<never>,
): Promise<Held> {
  const signal = await new Promise<Signal>((resolve) => {
    void using((held) => {
      resolve(held);
      return NEVER;
    });
  });
  return { key: 'stock:42', isLost: () => signal.aborted };
}

/** A `Mutex` of redis-semaphore, with an `onLockLost` or with the one that it has by default. */
export function holdingMutex(leaseMs: number, listen?: 'listen'): Hold {
  return async (server) => {
    const { Mutex } = await import('redis-semaphore');
    let isTold = false;
    const mutex = new Mutex(await connect(server), 'stock:42', {
      lockTimeout: leaseMs,
      ...(listen && { onLockLost: () => (isTold = true) }),
    });
    await mutex.acquire();
    return { key: 'mutex:stock:42', isLost: () => isTold || !mutex.isAcquired };
  };
}

export function holdingRedisson(leaseMs: number): Hold {
  return async (server) => {
    await (await openRedisson(server, leaseMs)).getLock('stock:42').lock();
    return { key: 'stock:42', isLost: () => false }; // it has nothing that could tell
  };
}
