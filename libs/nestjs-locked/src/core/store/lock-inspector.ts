import type { LockInfo } from '../lock-info.js';
import { processIdOf } from './lease-token.js';

/** What the store knows about a key that is held. */
export interface LockRecord {
  /** Without the prefix of the store. */
  readonly key: string;
  /** The value of the lock key: a token of ours, or whatever a foreign client wrote. */
  readonly value: string;
  /** How long the lease lasts if it is not renewed, in milliseconds; Infinity if it has no end. */
  readonly remainingMs: number;
  /** How many other processes wait. */
  readonly waiters: number;
  /** When the lease was granted, in milliseconds since 1970 by the store's clock; undefined if it is not ours. */
  readonly since: number | undefined;
  /** What the holder calls its work. */
  readonly label: string | undefined;
  /** What the holder's process says of itself. */
  readonly process: { readonly host: string; readonly pid: number } | undefined;
}

/** Tells who holds what, for operators. Its methods reject with LockStoreError: here nobody needs a quick answer. */
export interface LockInspector {
  /** Notes for this long, in milliseconds, what the holder of this token calls itself. */
  label(key: string, token: string, label: string, forMs: number): Promise<void>;
  /** The holder is about to release the key, and nobody has it after that with this label. */
  unlabel(key: string): Promise<void>;
  /** @returns undefined if nobody holds it */
  inspect(key: string): Promise<LockRecord | undefined>;
  /**
   * The keys that are held, in no order; keys that are taken or released meanwhile may be missing.
   * @param pattern as in Redis' MATCH: `*`, `?`, `[ab]`
   */
  list(pattern: string): AsyncIterable<string>;
  /** Whether the store answers. @throws LockStoreError */
  ping(): Promise<void>;
  /**
   * Takes the key away from its holder, who is told.
   * @returns the holder's value; undefined if nobody held it, or if it has just been taken away
   */
  revoke(key: string): Promise<string | undefined>;
}

/** What operators are told about a record. */
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
