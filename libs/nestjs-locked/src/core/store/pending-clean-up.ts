import type { Scheduled } from '../time/scheduler.js';
import type { TakeBackCommand, Unknown } from './lock-store.js';
import type { RetryPause } from './retry-pause.js';

/** What a command may have left in the store, and is still to be taken back. */
export interface PendingCleanUp {
  readonly command: TakeBackCommand;
  /** When it has ended on its own. */
  readonly until: number;
  /** Until when the key is to stay taken by nobody. */
  readonly keptUntil: number;
  /** Called when it is settled, one way or another. */
  readonly done: () => void;
  isOnItsWay: boolean;
  /** It was sent after the end of the service, so that it is not tried once more. */
  isLast: boolean;
  /** It was tried in vain: what is true in the store is not known. */
  failure: Unknown | undefined;
}

/** What is pending for one key. After a failed try it pauses, and no other key does. */
export interface CleanUpsOfKey extends Scheduled {
  readonly pending: Set<PendingCleanUp>;
  readonly retryPause: RetryPause;
  pausedUntil: number;
  triedAt: number;
  /** The store has refused it before, and it is tried to find out whether that is over. */
  isProbe: boolean;
  /** Called when all of them are settled. */
  readonly waiting: (() => void)[];
}
