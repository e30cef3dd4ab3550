import type { Granted } from '../store/lock-store.js';

/** What is known about a lease when the store has granted it. */
export interface LeaseGrant extends Omit<Granted, 'kind'> {
  /** When the command was sent that introduced its token: the grant came after that, and nobody here knows when. */
  readonly introducedAt: number;
  /** How long the store keeps it from the moment of the grant, in milliseconds. */
  readonly lengthMs: number;
  /** It did not come as an answer: it may be shorter than was asked for, and granted long after `introducedAt`. */
  readonly cameByMessage: boolean;
  /** What was asked for. */
  readonly leaseMs: number;
  /** The place in the store's queue from which it came, if it had one. */
  readonly score: number | undefined;
}
