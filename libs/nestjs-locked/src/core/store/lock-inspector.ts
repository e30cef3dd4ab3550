import type { LockInfo } from '../lock-info.js';
import { processIdOf } from './lease-token.js';

/** The record of a held key in the store. */
export interface LockRecord {
  /** Without the prefix of the store. */
  readonly key: string;
  /** The value of the lock key: a token of ours, or whatever a foreign client wrote. */
  readonly value: string;
  /** How long the lease lasts if it is not renewed, in milliseconds; Infinity if it never expires. */
  readonly remainingMs: number;
  /** How many other processes wait. */
  readonly waiters: number;
  /** When the lease was granted, in milliseconds since 1970 by the store's clock; undefined for a foreign lease. */
  readonly since: number | undefined;
  /** The `label` of the holder's call. */
  readonly label: string | undefined;
  /** The identity of the holder's process. */
  readonly process: { readonly host: string; readonly pid: number } | undefined;
}

/** Shows operators who holds what. Unlike those of the store, its methods reject, with LockStoreError. */
export interface LockInspector {
  /** Stores the label of the holder with this token for this long, in milliseconds. */
  label(key: string, token: string, label: string, forMs: number): Promise<void>;
  /** Removes the label before the holder releases the key. */
  unlabel(key: string): Promise<void>;
  /** @returns undefined if nobody holds it */
  inspect(key: string): Promise<LockRecord | undefined>;
  /**
   * The held keys, in no particular order; keys taken or released meanwhile may be missing.
   * @param pattern as in Redis' MATCH: `*`, `?`, `[ab]`
   */
  list(pattern: string): AsyncIterable<string>;
  /** Whether the store answers. @throws LockStoreError */
  ping(): Promise<void>;
  /**
   * Takes the key away from its holder and notifies the holder.
   * @returns the holder's value; undefined if nobody held it, or if it was just taken away
   */
  revoke(key: string): Promise<string | undefined>;
}

/** The public form of a record. */
export function lockInfo({ key, value, process, label, since, ...rest }: LockRecord): LockInfo {
  const processId = processIdOf(value);
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
