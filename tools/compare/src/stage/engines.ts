import type { Redis, RedisOptions } from 'ioredis';
import type { Side } from '../scenario.js';
import { openRedisson } from './clients.js';
import { nodeRedis } from './node-redis.js';
import { connect, type RedisServer } from './redis.js';

export interface Signal {
  readonly aborted: boolean;
}

/** A lock that is called and not decorated, used as its README does it. */
export interface Engine {
  /** The key of a lock in Redis. */
  key(name: string): string;
  /** Runs the work under the lock. @param signal tells the work that the lock is lost, if the library can */
  hold<T>(name: string, work: (signal?: Signal) => Promise<T>): Promise<T>;
}

/** What is common to all; what is not goes into `own`. */
export interface EngineOptions {
  readonly leaseMs?: number;
  /** For the client of Redis. */
  readonly client?: RedisOptions;
  /** Independent servers; libraries that know only one use the first. */
  readonly servers?: readonly RedisServer[];
  /** Options in the library's own words. */
  readonly own?: object;
}

interface EngineLibrary {
  readonly settings: string;
  open(
    servers: readonly RedisServer[],
    options: Required<Omit<EngineOptions, 'servers'>>,
  ): Promise<Engine>;
}

const LEASE_MS = 5_000;

const ioredisClients = (servers: readonly RedisServer[], options: RedisOptions): Promise<Redis[]> =>
  Promise.all(servers.map((server) => connect(server, options)));

const asIs = (name: string): string => name;

/** All of them, by the name under which they are installed. */
export const ENGINES = {
  redlock4: {
    settings: '`lock` and `unlock` with the defaults and 5 s.',
    async open(servers, { leaseMs, client, own }) {
      const { default: Redlock } = await import('redlock4');
      const redlock = new Redlock(await ioredisClients(servers, client), own);
      redlock.on('clientError', () => {});
      return {
        key: asIs,
        async hold(name, work) {
          const lock = await redlock.lock(name, leaseMs);
          try {
            return await work();
          } finally {
            await lock.unlock();
          }
        },
      };
    },
  },
  redlock: {
    settings: '`using` with the defaults and 5 s.',
    async open(servers, { leaseMs, client, own }) {
      const { default: Redlock } = await import('redlock');
      const redlock = new Redlock((await ioredisClients(servers, client)) as never[], own);
      redlock.on('error', () => {});
      return { key: asIs, hold: (name, work) => redlock.using([name], leaseMs, work) };
    },
  },
  '@sesamecare-oss/redlock': {
    settings: '`using` with the defaults and 5 s.',
    async open(servers, { leaseMs, client, own }) {
      const { Redlock } = await import('@sesamecare-oss/redlock');
      const redlock = new Redlock((await ioredisClients(servers, client)) as never[], own);
      redlock.on('error', () => {});
      return { key: asIs, hold: (name, work) => redlock.using([name], leaseMs, work) };
    },
  },
  'redlock-universal': {
    settings: '`using` with the defaults and 5 s.',
    async open(servers, { leaseMs, client, own }) {
      const { createLock, createRedlock, IoredisAdapter } = await import('redlock-universal');
      const { timeout, ...options } = own as { readonly timeout?: number };
      const clients = await ioredisClients(servers, client);
      const adapters = clients.map(
        (redis) => new IoredisAdapter(redis, timeout === undefined ? {} : { timeout }),
      );
      return {
        key: asIs,
        hold(key, work) {
          const lock =
            adapters.length === 1
              ? createLock({ adapter: adapters[0] as never, key, ttl: leaseMs, ...options })
              : createRedlock({ adapters, key, ttl: leaseMs, ...options });
          return lock.using(work);
        },
      };
    },
  },
  'redis-semaphore': {
    settings: 'A `Mutex` for each call with an `onLockLost`, otherwise the defaults and 5 s.',
    async open(servers, { leaseMs, client, own }) {
      const { Mutex, RedlockMutex } = await import('redis-semaphore');
      const clients = await ioredisClients(servers, client);
      const [first] = clients as [Redis];
      const isOne = clients.length === 1;
      return {
        key: (name) => `mutex:${name}`,
        async hold(name, work) {
          let isLost = false;
          const options = { lockTimeout: leaseMs, onLockLost: () => (isLost = true), ...own };
          const mutex = isOne
            ? new Mutex(first, name, options)
            : new RedlockMutex(clients, name, options);
          await mutex.acquire();
          try {
            return await work({
              get aborted() {
                return isLost || !mutex.isAcquired;
              },
            });
          } finally {
            await mutex.release();
          }
        },
      };
    },
  },
  'node-redisson': {
    settings: '`lock()` and `unlock()` with a watchdog of 5 s.',
    async open([server], { leaseMs, own, client }) {
      const redisson = await openRedisson(server as RedisServer, leaseMs, own, client);
      return {
        key: asIs,
        async hold(name, work) {
          const lock = redisson.getLock(name);
          await lock.lock();
          try {
            return await work();
          } finally {
            await lock.unlock();
          }
        },
      };
    },
  },
  'simple-redis-mutex': {
    settings: '`lock` with the defaults and 5 s.',
    async open([server], { leaseMs, client, own }) {
      const { lock } = await import('simple-redis-mutex');
      const redis = await nodeRedis(server as RedisServer, client);
      return {
        key: (name) => `@simple-redis-mutex:lock-${name}`,
        async hold(name, work) {
          const release = await lock(redis as never, name, { timeout: leaseMs, ...own });
          try {
            return await work();
          } finally {
            await release();
          }
        },
      };
    },
  },
  '@redis-kit/lock': {
    settings: '`withLock` with the defaults, 5 s, `extensionThresholdMs: 1000`.',
    async open(servers, { leaseMs, client, own }) {
      const { Redlock } = await import('@redis-kit/lock');
      const clients = await Promise.all(servers.map((server) => nodeRedis(server, client)));
      const { extensionThresholdMs = 1_000, ...options } = own as { extensionThresholdMs?: number };
      const redlock = new Redlock(clients as never[], options);
      return {
        key: asIs,
        hold: (name, work) =>
          redlock.withLock(name, leaseMs, () => work(), { extensionThresholdMs }),
      };
    },
  },
  'nestjs-locked': {
    settings: '`withLock` with the defaults.',
    async open(servers, { leaseMs, client, own }) {
      const { ourLocks, ourQuorum } = await import('./our-locks.js'); // and Nest only for this side
      const { isQuorum = false, ...options } = own as { readonly isQuorum?: boolean };
      const settings = { ...(leaseMs !== LEASE_MS && { leaseMs }), ...options };
      const locks = isQuorum
        ? await ourQuorum(servers, { ...settings, leaseMs })
        : await ourLocks(servers[0] as RedisServer, settings, client);
      return {
        key: (name) => `lock:{${name}}`,
        hold: (name, work) => locks.withLock(name, ({ signal }) => work(signal)),
      };
    },
  },
} satisfies Record<string, EngineLibrary>;

export type EngineName = keyof typeof ENGINES;

export function openEngine(
  library: EngineName,
  server: RedisServer,
  { servers = [server], leaseMs = LEASE_MS, client = {}, own = {} }: EngineOptions = {},
): Promise<Engine> {
  return ENGINES[library].open(servers, { leaseMs, client, own });
}

export interface EngineSettings extends EngineOptions {
  /** Its settings in words, if they are not the usual ones. */
  readonly settings?: string;
  readonly note?: string;
}

/** A side of one of them. @param make what is made of it */
export function engineSide<Tool>(
  library: EngineName,
  make: (engine: Engine, server: RedisServer) => Tool | Promise<Tool>,
  { settings = ENGINES[library].settings, note, ...options }: EngineSettings = {},
): Side<Tool> {
  return {
    library,
    settings,
    note,
    open: async (server) => make(await openEngine(library, server, options), server),
  };
}
