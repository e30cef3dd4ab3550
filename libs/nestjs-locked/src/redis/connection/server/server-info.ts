import { LockConfigError } from '../../../core/lock.errors.js';
import { hasNoTime, publishesToSlot } from '../../scripts/reply-error.js';

/** The oldest version whose scripts, ACLs and PUBSUB behave as the protocol needs. */
const OLDEST_REDIS = [6, 2] as const;

/** Information of a server about itself. */
export interface ServerInfo {
  /** The server's policy when its memory is full; undefined if it never evicts keys, or does not report it. */
  readonly evictionPolicy: string | undefined;
  /** Changes with every start of the server; undefined if not reported. */
  readonly runId: string | undefined;
  /** For how long it has run, in milliseconds; 0 if it does not say, or if its clock was set back since. */
  readonly upMs: number;
}

/**
 * @param info the answer to INFO; '' if the user may not ask for it
 * @param inCluster whether the server is to be a node of a Redis Cluster
 * @throws LockConfigError if this kind of server is not supported · Error if it is a replica, which may become a master
 */
export function readServerInfo(info: string, inCluster: boolean): ServerInfo {
  assertVersion(info);
  if (/^(?:redis|server)_mode:sentinel/m.test(info)) throw sentinelError();
  if (!inCluster && /^cluster_enabled:1/m.test(info)) throw clusterError();
  // Another server may have taken the port of a removed node, and would grant locks held elsewhere.
  if (inCluster && /^cluster_enabled:0/m.test(info)) throw noClusterError();
  if (/^role:active-replica/m.test(info)) throw activeReplicaError();
  if (/^role:slave/m.test(info)) {
    throw new Error('the server at this address is a READONLY replica, and locks need the master');
  }
  return { evictionPolicy: readEvictionPolicy(info), runId: readRunId(info), upMs: readUpMs(info) };
}

/** @returns undefined if the server never evicts keys, or does not report it */
export function readEvictionPolicy(info: string): string | undefined {
  const [, maxMemory] = /^maxmemory:(\d+)/m.exec(info) ?? [];
  const [, policy] = /^maxmemory_policy:(\S+)/m.exec(info) ?? [];
  return maxMemory === '0' || policy === 'noeviction' ? undefined : policy;
}

export function readRunId(info: string): string | undefined {
  return /^run_id:(\w+)/m.exec(info)?.[1];
}

function readUpMs(info: string): number {
  return Number(/^uptime_in_seconds:(\d+)/m.exec(info)?.[1] ?? 0) * 1_000;
}

export function clusterError(cause?: unknown): LockConfigError {
  return new LockConfigError(
    `The server in 'connection' is a node of a Redis Cluster, and has only a part of the keys: pass a Cluster of ioredis, or { cluster: [{ host, port }] }`,
    undefined,
    cause === undefined ? undefined : { cause },
  );
}

export function noClusterError(cause?: unknown): LockConfigError {
  return new LockConfigError(
    `The server in 'connection' is not a node of a Redis Cluster (cluster-enabled no): pass its URL, or a Redis client instead of a Cluster`,
    undefined,
    cause === undefined ? undefined : { cause },
  );
}

/** The error for a server on which the scripts cannot work, according to the probe; undefined if they can. */
export function unsuitableServer(answer: unknown): LockConfigError | undefined {
  if (hasNoTime(answer)) {
    return new LockConfigError(
      `The server in 'connection' cannot tell the time in a script: TIME answers 0 there, and without it neither fencing numbers nor leases are right; use Redis or Valkey`,
      undefined,
      { cause: answer },
    );
  }
  if (publishesToSlot(answer)) {
    return new LockConfigError(
      `The cluster in 'connection' publishes to the slot of a channel only: a script cannot tell the waiters of its key there; use a cluster whose PUBLISH reaches every node, or one server`,
      undefined,
      { cause: answer },
    );
  }
  return undefined;
}

function sentinelError(): LockConfigError {
  return new LockConfigError(
    `The server in 'connection' is a sentinel, which has no keys: pass { sentinels: [{ host, port }], name }, with the name of the master`,
  );
}

/** Only KeyDB has such servers. */
function activeReplicaError(): LockConfigError {
  return new LockConfigError(
    `The server in 'connection' is an active replica: two masters would grant the same lock to two holders; set active-replica no, and name the one master`,
  );
}

function assertVersion(info: string): void {
  const [, major, minor] = /redis_version:(\d+)\.(\d+)/.exec(info) ?? [];
  if (major === undefined || minor === undefined) return;
  const [oldestMajor, oldestMinor] = OLDEST_REDIS;
  if (+major > oldestMajor || (+major === oldestMajor && +minor >= oldestMinor)) return;
  throw new LockConfigError(
    `Redis ${major}.${minor} is too old: nestjs-locked needs ${OLDEST_REDIS.join('.')} or newer`,
  );
}
