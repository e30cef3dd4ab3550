import type { Granted } from '../store/lock-store.js';

/**
 * answer        the reply to the command that introduced its token
 * later-answer  the reply to a later one: it may have been granted any time after `introducedAt`
 * message       it may also be shorter than requested
 */
export type CameBy = 'answer' | 'later-answer' | 'message';

/** A lease as the store has granted it. */
export interface LeaseGrant extends Omit<Granted, 'kind'> {
  /** When the command that introduced its token was sent; the grant came at an unknown time after that. */
  readonly introducedAt: number;
  /** How long the store keeps it after the grant, in milliseconds. */
  readonly lengthMs: number;
  readonly cameBy: CameBy;
  /** How long it is to last once it is renewed. */
  readonly leaseMs: number;
  /** The position in the store's queue from which it came, if it had one. */
  readonly position: number | undefined;
}
