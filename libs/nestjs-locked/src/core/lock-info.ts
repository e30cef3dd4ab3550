import type { HeldMode } from './lock-mode.js';

/** Why a key is taken: by a call, by `holdAtLeastMs`, after a forced release, by another kind of client. */
export type LockState = 'held' | 'kept' | 'revoked' | 'foreign';

/** What is known about a held key, at one moment. */
export interface LockInfo {
  /** Without the prefix: `stock:42`. */
  readonly key: string;
  /** Why it is taken. */
  readonly state: LockState;
  /** How it is held; undefined like `holder`. */
  readonly mode: HeldMode | undefined;
  /** Names this lease among all that the key ever has. With it, `forceRelease` takes away no later one. */
  readonly leaseId: string;
  /** Undefined if another kind of client holds the key, or if only `holdAtLeastMs` keeps it taken. */
  readonly holder: LockHolder | undefined;
  /**
   * All processes that hold the key, of which `holder` is the first: with `mode: 'shared'`, there may be several, of
   * which 50 are named at most; and with permits as well. Empty if `holder` is undefined.
   */
  readonly holders: readonly LockHolder[];
  /**
   * Since when the call has the key, by the clock of its machine. If its process has not said which call that is
   * (`fencingToken` is undefined), this is when it asked for the lease: if it had to wait, when it last did so, some
   * seconds before it got it. Undefined like `holder`.
   */
  readonly since: Date | undefined;
  /** How long the lease lasts if it is not renewed, in milliseconds; Infinity if it never expires. */
  readonly remainingMs: number;
  /**
   * That of the present hold. The store does not know it: undefined unless the process of the holder, this one or
   * another, has said which call has the key.
   */
  readonly fencingToken: number | undefined;
  /** How many wait: calls of this process, each of them, and other processes, each counted once. */
  readonly waiters: number;
  /**
   * The first 50 of them in their order. Calls of the process that has the key come first: it may serve them before
   * others (`localHandovers`).
   */
  readonly queue: readonly LockWaiter[];
}

/** A call of this process that waits for a key, or the call for which another process waits. */
export interface LockWaiter extends LockHolder {
  /** In milliseconds: of a call, since it asked; of another process, since it has its place in the queue. */
  readonly waitedMs: number;
}

/** A call that holds a lock and waits for another one. */
export interface LockWait {
  /** The id of its lock service, as in `LockHolder`. */
  readonly processId: string;
  /** The name of its machine or container. */
  readonly host: string;
  /** Its process id there. */
  readonly pid: number;
  /** Different for each wait of the service. */
  readonly id: string;
  /** The `label` of the call or, without one, its method: `StockService.take`. Undefined if it has neither. */
  readonly label: string | undefined;
  /** The key that it waits for. */
  readonly key: string;
  /** Since when it waits for this key, by the clock of its machine. */
  readonly since: Date;
  /** The keys that it holds, or that the calls around it hold. */
  readonly holds: readonly string[];
}

/** Who holds a key, as far as Redis knows. */
export interface LockHolder {
  /** The id of the lock service that holds it; a process has one service for each lock module. */
  readonly processId: string;
  /** The name of its machine or container, if known. */
  readonly host: string | undefined;
  /** Its process id there, if known. */
  readonly pid: number | undefined;
  /**
   * The `label` of the call or, without one, its method: `StockService.take`. Undefined if it has neither. Of another
   * process, this is the call for which it got the lease, and which may have handed the key on to another call since;
   * only `inspect` asks it for the present one, if it answers within half a second.
   */
  readonly label: string | undefined;
  /** Of a permit: its number among those in use, from 0 on. Only in the `holders` of `LockInfo`. */
  readonly slot?: number;
  /** Of a permit: how many it takes. Only in the `holders` of `LockInfo`. */
  readonly weight?: number;
}
