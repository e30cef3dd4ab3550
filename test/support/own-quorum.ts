import { afterAll, beforeAll } from '@jest/globals';
import { RedisServer } from 'dev-servers';
import type { Redis } from 'ioredis';
import { LockEngine } from '../../libs/nestjs-locked/src/core/engine/lock-engine.js';
import type { LockServiceOptions } from '../../libs/nestjs-locked/src/core/lock.options.js';
import type { LockEvent } from '../../libs/nestjs-locked/src/core/lock-events.js';
import { resolveServiceOptions } from '../../libs/nestjs-locked/src/core/resolved.options.js';
import { leaseToken, newProcessId } from '../../libs/nestjs-locked/src/core/store/lease-token.js';
import type { StoreMessage } from '../../libs/nestjs-locked/src/core/store/lock-store.js';
import { type Clock, systemClock } from '../../libs/nestjs-locked/src/core/time/clock.js';
import { openQuorum } from '../../libs/nestjs-locked/src/redis/quorum/open-quorum.js';
import { QuorumLockStore } from '../../libs/nestjs-locked/src/redis/quorum/quorum-lock-store.js';
import { QuorumScripts } from '../../libs/nestjs-locked/src/redis/quorum/quorum-scripts.js';
import { RedisKeys } from '../../libs/nestjs-locked/src/redis/scripts/redis-keys.js';
import { FENCE_KEEP_MS } from '../../libs/nestjs-locked/src/redis/store-defaults.js';
import { afterTest } from './after-test.js';
import { connectAdmin } from './connect-admin.js';
import { LEASE_MS } from './contract-party.js';
import type { ContractStore } from './lock-store-contract.js';
import { isOfBusyMachine } from './open-locks.js';

/** The masters of a quorum, which a test may pause, kill and restart. */
export interface OwnQuorum {
  readonly servers: readonly RedisServer[];
  readonly urls: readonly string[];
  /** A connection to each server for inspecting and manipulating it. */
  readonly admins: readonly Redis[];
  /** What each server has at this key of a lock. */
  readonly holders: (key: string) => Promise<(string | null)[]>;
}

/** The name of a lock in Redis. */
export const lockOf = (key: string): string => `lock:{${key}}`;

/** A token of a process that no test has. */
export const tokenOfOther = (): string => leaseToken(newProcessId(), Date.now() * 1_000);

/** Independent servers for one spec file or `describe`, from the first `beforeAll` to the end. */
export function useQuorum(size = 3): OwnQuorum {
  let servers: RedisServer[] = [];
  let admins: Redis[] = [];

  beforeAll(async () => {
    servers = await Promise.all(Array.from({ length: size }, () => RedisServer.start()));
    admins = servers.map(({ url }) => connectAdmin(url));
  });

  afterAll(async () => {
    for (const admin of admins) admin.disconnect();
    await Promise.all(servers.map((server) => server.stop()));
  });

  return {
    get servers() {
      return servers;
    },
    get urls() {
      return servers.map(({ url }) => url);
    },
    get admins() {
      return admins;
    },
    holders: (key) => Promise.all(admins.map((admin) => admin.get(lockOf(key)))),
  };
}

/** The scripts that a store of `newQuorumStore` sends, if it has no options of its own. */
export function quorumScripts(): QuorumScripts {
  const { inboxPrefix } = new RedisKeys('lock:', true);
  return new QuorumScripts({ inboxPrefix, fenceKeepMs: FENCE_KEEP_MS, youngMs: 0 });
}

export interface QuorumStoreOptions {
  readonly leaseMs?: number;
  readonly keyPrefix?: string;
  readonly clock?: Clock;
  readonly startMs?: number;
  readonly rejoinAfterMs?: number;
}

/** The servers of a test have just started, so by default they vote at once. */
export function newQuorumStore(
  urls: readonly string[],
  { leaseMs = 2_000, rejoinAfterMs = 0, ...options }: QuorumStoreOptions = {},
): QuorumLockStore {
  const { clients, closeClients } = openQuorum({ quorum: urls, rejoinAfterMs });
  const defaults = { clock: systemClock, keyPrefix: 'lock:' };
  return new QuorumLockStore({
    ...defaults,
    ...options,
    clients,
    leaseMs,
    rejoinAfterMs,
    closeClients,
  });
}

/**
 * Opens a store that records its messages, and takes the key when it is its turn, as the engine does, with a message of
 * its own about that. It must be closed.
 */
export async function openQuorumStore(
  urls: readonly string[],
  options?: QuorumStoreOptions,
): Promise<ContractStore & { readonly store: QuorumLockStore }> {
  const store = newQuorumStore(urls, options);
  const inbox: StoreMessage[] = [];
  const asked = new Set<string>();
  const takeTurn = async ({ key, token }: { key: string; token: string }): Promise<void> => {
    if (asked.has(token)) return; // another node has told it before
    asked.add(token);
    const command = { key, token, newToken: token, leaseMs: LEASE_MS, position: 0 };
    const reply = await store.recheck(command);
    if (reply.kind !== 'granted') asked.delete(token);
    else inbox.push({ ...reply, kind: 'grant', key, acceptMs: LEASE_MS });
  };
  await store.open({
    message: (message) => {
      inbox.push(message);
      if (message.kind === 'head' && message.ms === 0) void takeTurn(message);
    },
    reconnected: () => {},
    inboxLost: () => {},
    mayEvict: () => {},
    storeLost: () => {},
    storeBack: () => {},
  });
  return { store, inbox };
}

/** Opens a lock service as the module does, but without Nest. Closed after the test. */
export async function openQuorumLocks(
  urls: readonly string[],
  options: LockServiceOptions & QuorumStoreOptions = {},
) {
  const { keyPrefix, clock, startMs, rejoinAfterMs, ...service } = options;
  const resolved = resolveServiceOptions(service);
  const { leaseMs } = resolved;
  const store = newQuorumStore(urls, {
    leaseMs,
    ...(keyPrefix === undefined ? {} : { keyPrefix }),
    ...(clock === undefined ? {} : { clock }),
    ...(startMs === undefined ? {} : { startMs }),
    ...(rejoinAfterMs === undefined ? {} : { rejoinAfterMs }),
  });
  const events: LockEvent[] = [];
  const report = (event: LockEvent): void => {
    if (!isOfBusyMachine(event)) events.push(event);
  };
  const engine = new LockEngine({ store, options: resolved, report });
  afterTest(() => engine.close(0));
  await engine.open();
  return { engine, store, events: events as readonly LockEvent[] };
}
