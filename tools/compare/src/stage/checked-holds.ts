import { openRedlock } from './clients.js';
import { openEngine } from './engines.js';
import { connect, type RedisServer } from './redis.js';
import { QUORUM_LEASE_MS, type QuorumLibrary } from './three-servers.js';

/** What a holder asks before it does what cannot be undone. */
export interface CheckedHold {
  /** Whether the library knows that the lock is lost. */
  isLost(): boolean | Promise<boolean>;
  /** A number that is higher than that of every holder before, if the library has one. */
  readonly fence?: number;
}

/** Works under the lock of `stock:42`. */
export type HoldChecked = (work: (hold: CheckedHold) => Promise<void>) => Promise<void>;

const KEY = 'stock:42';

/**
 * A lock on several servers, and the check that the library's documentation gives.
 *
 * @param asksServers whether the check extends the lock: if the library can, it is a question to the servers
 */
export async function openChecked(
  library: QuorumLibrary,
  ports: readonly number[],
  asksServers: boolean,
): Promise<HoldChecked> {
  const servers = ports.map((port) => ({ port, url: `redis://127.0.0.1:${port}` }) as RedisServer);
  if (library === 'nestjs-locked') return ours(servers);
  if (asksServers && library === 'redlock') return extendingRedlock(servers);
  if (asksServers && library === 'redlock-universal') return extendingUniversal(servers);
  const [first] = servers as [RedisServer];
  const engine = await openEngine(library, first, { servers, leaseMs: QUORUM_LEASE_MS });
  return (work) => engine.hold(KEY, (signal) => work({ isLost: () => signal?.aborted === true }));
}

async function ours(servers: readonly RedisServer[]): Promise<HoldChecked> {
  const { ourQuorum } = await import('./our-locks.js'); // and Nest only for this side
  const locks = await ourQuorum(servers, { leaseMs: QUORUM_LEASE_MS });
  return (work) =>
    locks.withLock(KEY, (lock) =>
      work({
        isLost() {
          try {
            lock.assertHeld();
            return false;
          } catch {
            return true;
          }
        },
        fence: lock.fencingToken,
      }),
    );
}

async function extendingRedlock(servers: readonly RedisServer[]): Promise<HoldChecked> {
  const clients = await Promise.all(servers.map((server) => connect(server)));
  const redlock = await openRedlock('redlock', clients);
  return async (work) => {
    let lock = await redlock.acquire([KEY], QUORUM_LEASE_MS);
    await work({
      async isLost() {
        try {
          lock = await lock.extend(QUORUM_LEASE_MS);
          return false;
        } catch {
          return true;
        }
      },
    });
    await lock.release().catch(() => {});
  };
}

async function extendingUniversal(servers: readonly RedisServer[]): Promise<HoldChecked> {
  const { createRedlock, IoredisAdapter } = await import('redlock-universal');
  const clients = await Promise.all(servers.map((server) => connect(server)));
  const adapters = clients.map((redis) => new IoredisAdapter(redis));
  return async (work) => {
    const lock = createRedlock({ adapters, key: KEY, ttl: QUORUM_LEASE_MS });
    const handle = await lock.acquire();
    await work({
      isLost: () => lock.extend(handle, QUORUM_LEASE_MS).then((isExtended) => !isExtended, isTrue),
    });
    await lock.release(handle).catch(() => {});
  };
}

const isTrue = (): boolean => true;
