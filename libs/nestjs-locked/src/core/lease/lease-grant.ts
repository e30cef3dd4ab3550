import type { Granted } from '../store/lock-store.js';

/**
 * answer        to the command that introduced its token
 * later-answer  to a later one: it may have been granted any time after `introducedAt`
 * message       so it may also be shorter than was asked for
 */
export type CameBy = 'answer' | 'later-answer' | 'message';

/** What is known about a lease when the store has granted it. */
export interface LeaseGrant extends Omit<Granted, 'kind'> {
  /** When the command was sent that introduced its token: the grant came after that, and nobody here knows when. */
  readonly introducedAt: number;
  /** How long the store keeps it from the moment of the grant, in milliseconds. */
  readonly lengthMs: number;
  readonly cameBy: CameBy;
  /** What was asked for. */
  readonly leaseMs: number;
  /** The position in the store's queue from which it came, if it had one. */
  readonly position: number | undefined;
}
