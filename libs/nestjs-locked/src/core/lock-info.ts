import type { LockRecord } from './store/lock-directory.js';

/** What is known about a held key, at one moment. */
export interface LockInfo {
  readonly key: string;
  /** Undefined if a client of another kind holds it, or if nobody does and the key is only kept (`holdAtLeastMs`). */
  readonly holder: LockHolder | undefined;
  /** When this process got the lease, by Redis' clock; its callers may have passed it on since. */
  readonly since: Date | undefined;
  /** How long the lease lasts if it is not renewed, in milliseconds; Infinity if it has no end. */
  readonly remainingMs: number;
  /** How many other processes wait. */
  readonly waiters: number;
}

export interface LockHolder {
  /** The lock service that has it; a process has one for each lock module. */
  readonly processId: string;
  readonly host: string | undefined;
  readonly pid: number | undefined;
  /** The `label` of the call. */
  readonly label: string | undefined;
}

const LEASE_TOKEN = /^([0-9a-f]{32}):\d+$/;

export function lockInfo({ key, value, process, label, since, ...rest }: LockRecord): LockInfo {
  const processId = LEASE_TOKEN.exec(value)?.[1];
  return {
    key,
    holder:
      processId === undefined
        ? undefined
        : { processId, host: process?.host, pid: process?.pid, label },
    since: since === undefined ? undefined : new Date(since),
    remainingMs: rest.remainingMs,
    waiters: rest.waiters,
  };
}
