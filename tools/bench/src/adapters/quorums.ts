import { Redis } from 'ioredis';
import { once } from 'node:events';
import { type Adapter, holdBy, type OpenLocks, type Release } from './adapter.js';
import { openLockService } from './lock-service.js';
import { acquireBy } from './peers.js';

/** The independent servers of a scenario, in the place of one URL. */
export function allOf(urls: readonly string[]): string {
  return urls.join(' ');
}

/**
 * The lease of all. With the 30 seconds of the other scenarios, a peer whose callers have split the votes stands still
 * for as long, because it does not give them back.
 */
export const QUORUM_LEASE_MS = 3_000;

/** How many of the servers a quorum has. */
const SIZES = [3, 5] as const;

/** The peers wait without limit; ours waits longer than any round. */
const WAIT_MS = 120_000;

/** Ours, with one of the same servers. */
export const onOneServer = ours('ours-one-of-quorum', 'nestjs-locked, one server', 1);

export const ourQuorums = SIZES.map((size) =>
  ours(`ours-quorum-${size}`, `nestjs-locked, quorum of ${size}`, size),
);

export const peerQuorums = SIZES.flatMap((size) => [
  ofRedlock(size, 'as documented', { retryDelay: 200, retryJitter: 100 }),
  ofRedlock(size, 'at its best', { retryDelay: 20, retryJitter: 20 }),
  ofRedisSemaphore(size),
  ofRedlockUniversal(size, 'as documented', {}),
  ofRedlockUniversal(size, 'at its best', { retryDelay: 10 }),
]);

export const QUORUMS: readonly Adapter[] = [onOneServer, ...ourQuorums, ...peerQuorums];

function ours(id: string, name: string, size: number): Adapter {
  return {
    id,
    name,
    kind: 'ours',
    settings: `\`acquire\` and \`release\` of \`LockService\`, the defaults but for \`leaseMs: ${QUORUM_LEASE_MS}\`.`,
    async open(all): Promise<OpenLocks> {
      const urls = all.split(' ').slice(0, size);
      const [url = ''] = urls;
      const connection = size === 1 ? url : { quorum: urls };
      const service = await openLockService(connection, {
        waitMs: WAIT_MS,
        leaseMs: QUORUM_LEASE_MS,
      });
      const hold = holdBy(async (key) => {
        const lock = await service.locks.acquire(key);
        return () => lock.release();
      });
      return { hold, close: () => service.close() };
    },
  };
}

function ofRedlock(
  size: number,
  how: string,
  delays: { readonly retryDelay: number; readonly retryJitter: number },
): Adapter {
  return {
    ...named('redlock', 'redlock 5 beta', size, how),
    settings: `redlock 5.0.0-beta.2, \`acquire\` and \`release\`, \`retryCount: -1\`, \`retryDelay: ${delays.retryDelay}\`, \`retryJitter: ${delays.retryJitter}\`.`,
    open: onClients(size, async (clients) => {
      const { default: Redlock } = await import('redlock');
      return acquireBy(new Redlock(clients, { retryCount: -1, ...delays }), QUORUM_LEASE_MS);
    }),
  };
}

function ofRedisSemaphore(size: number): Adapter {
  return {
    ...named('redis-semaphore', 'redis-semaphore', size, 'as documented'),
    settings:
      'redis-semaphore 5.8.0, a `RedlockMutex` for each call, default `retryInterval` (10 ms) and refresh, `acquireTimeout` longer than any round.',
    open: onClients(size, async (clients) => {
      const { RedlockMutex } = await import('redis-semaphore');
      const options = { lockTimeout: QUORUM_LEASE_MS, acquireTimeout: WAIT_MS };
      return async (key) => {
        const mutex = new RedlockMutex([...clients], key, options);
        await mutex.acquire();
        return () => mutex.release();
      };
    }),
  };
}

function ofRedlockUniversal(size: number, how: string, delays: { readonly retryDelay?: number }) {
  return {
    ...named('redlock-universal', 'redlock-universal', size, how),
    settings: `redlock-universal 0.8.5, \`createRedlock\` for each call, unlimited \`retryAttempts\`, \`retryDelay: ${delays.retryDelay ?? 'the default'}\`.`,
    open: onClients(size, async (clients) => {
      const { createRedlock, IoredisAdapter } = await import('redlock-universal');
      const adapters = clients.map((redis) => new IoredisAdapter(redis));
      return async (key) => {
        const options = {
          adapters,
          key,
          ttl: QUORUM_LEASE_MS,
          retryAttempts: 1_000_000,
          ...delays,
        };
        const lock = createRedlock(options);
        const handle = await lock.acquire();
        return () => lock.release(handle);
      };
    }),
  };
}

function named(
  library: string,
  name: string,
  size: number,
  how: string,
): Pick<Adapter, 'id' | 'name' | 'kind'> {
  const id = `${library}-quorum-${size}-${how.replaceAll(' ', '-')}`;
  return { id, name: `${name}, quorum of ${size}, ${how}`, kind: 'peer' };
}

function onClients(
  size: number,
  open: (clients: readonly Redis[]) => Promise<(key: string) => Promise<Release>>,
): Adapter['open'] {
  return async (all): Promise<OpenLocks> => {
    const clients = all
      .split(' ')
      .slice(0, size)
      .map((url) => new Redis(url));
    await Promise.all(clients.map((client) => once(client, 'ready')));
    return {
      hold: holdBy(await open(clients)),
      close: async () => {
        for (const client of clients) client.disconnect();
      },
    };
  };
}
