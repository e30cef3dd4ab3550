import type { Scheduled } from '../time/scheduler.js';
import type { TakeBackCommand, Unknown } from './lock-store.js';
import type { RetryPause } from './retry-pause.js';

/** Something that a command may have left in the store and that is still to be taken back. */
export interface PendingCleanUp {
  readonly command: TakeBackCommand;
  /** When it has expired. */
  readonly until: number;
  /** Until when the key is to stay taken without a holder. */
  readonly keptUntil: number;
  /** Called when it is settled in any way. */
  readonly done: () => void;
  isOnItsWay: boolean;
  /** Whether it was sent after the service closed, so that it is not retried. */
  isLast: boolean;
  /** The reply of a failed try: the state of the store is unknown. */
  failure: Unknown | undefined;
}

/** The pending clean-ups of one key, which pauses after a failed try without delaying other keys. */
export interface CleanUpsOfKey extends Scheduled {
  readonly pending: Set<PendingCleanUp>;
  readonly retryPause: RetryPause;
  pausedUntil: number;
  triedAt: number;
  /** Whether this try is to find out if the store still refuses the key. */
  isProbe: boolean;
  /** Called when all of them are settled. */
  readonly waiting: (() => void)[];
}
