import type { LockEvent } from './lock-events.js';

/** The method of a lock service that a health check calls. */
export const LOCK_HEALTH = Symbol.for('nestjs-locked/LockHealth');

/** What tells in advance that locks will be lost: a renewal that was sent late, or not answered. */
export type RenewalWarning = Extract<LockEvent, { type: 'renewed-late' | 'renewal-unknown' }>;

/** The state of a lock service whose store answers. */
export interface LockHealth {
  /** How long the store took to answer, in milliseconds. */
  readonly pingMs: number;
  /** How the store evicts keys when its memory is full. Undefined if it evicts none, or does not tell. */
  readonly evictionPolicy: string | undefined;
  /** The nodes of a quorum that cannot be used now, although enough of the others can. */
  readonly nodesAway: readonly string[];
  /** The latest of each type within the last minute. */
  readonly renewals: readonly RenewalWarning[];
}

/** For the log and for health checks. */
export function evictionWarning(policy: string): string {
  return `Redis evicts keys when its memory is full (maxmemory-policy ${policy}), including locks; set it to noeviction`;
}

/** A lock service, as a health check sees it. */
export interface HasLockHealth {
  /** @throws LockStoreError if the store does not answer, or refuses what the locks need */
  [LOCK_HEALTH](): Promise<LockHealth>;
}

export function hasLockHealth(value: unknown): value is HasLockHealth {
  return typeof (value as Partial<HasLockHealth> | null | undefined)?.[LOCK_HEALTH] === 'function';
}
