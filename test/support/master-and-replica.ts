import { expect } from '@jest/globals';
import type { RedisServer } from 'dev-servers';
import type { Redis } from 'ioredis';
import { eventually } from './eventually.js';
import { openAdmin } from './open-locks.js';
import { startRedisServer } from './own-redis.js';
import { TcpProxy } from './tcp-proxy.js';

/** A master and its replica, for the current test only. */
export interface MasterAndReplica {
  readonly master: RedisServer;
  readonly replica: RedisServer;
  readonly onMaster: Redis;
  readonly onReplica: Redis;
  /** Stops replication silently: the master's data no longer arrives, and the connection stays open. */
  cutLink(): void;
}

/**
 * Starts both, and waits until the replica is in sync.
 * @param ofReplica additional arguments of the replica
 */
export async function startMasterAndReplica(...ofReplica: string[]): Promise<MasterAndReplica> {
  const args = ['--repl-diskless-sync-delay', '0'];
  const master = await startRedisServer(...args);
  const link = await TcpProxy.start(master.port);
  const port = new URL(link.url).port;
  const following = ['--replicaof', '127.0.0.1', port];
  const replica = await startRedisServer(...args, ...following, ...ofReplica);
  const [onMaster, onReplica] = [openAdmin(master.url), openAdmin(replica.url)];
  await eventually(async () => {
    expect(await onReplica.info('replication')).toContain('master_link_status:up');
    expect(await onMaster.info('replication')).toContain('state=online');
  });
  return { master, replica, onMaster, onReplica, cutLink: () => link.silenceOldest() };
}

/** How often the server has executed this command since it started. */
export async function timesCalled(admin: Redis, command: string): Promise<number> {
  const stats = await admin.info('commandstats');
  return Number(new RegExp(`cmdstat_${command}:calls=(\\d+)`).exec(stats)?.[1] ?? 0);
}

/** Resolves once a client is blocked. WAIT is the only blocking command here. */
export async function waitIsInFlight(admin: Redis): Promise<void> {
  await eventually(async () => expect(await admin.info('clients')).toContain('blocked_clients:1'));
}
