/** What a process wrote down about one caller. Times are milliseconds of the machine's monotonic clock. */
export interface LabEvent {
  readonly at: number;
  /** The caller, for instance `A` or `2.4`: caller 4 of process 2. */
  readonly lane: string;
  readonly kind: EventKind;
  readonly text?: string;
  /** The fencing number of a hold, if the lock gives one. */
  readonly fence?: number;
  /** For how long the lock says that it is held, if it can be asked, and is held. */
  readonly leftMs?: number;
  /** Something is done to Redis, or to the key, that no caller has done. */
  readonly disturbs?: true;
}

export type EventKind =
  /** Begins to wait for the lock. */
  | 'wait'
  /** The lock said yes. */
  | 'hold'
  /** Will not touch the data any more, and is about to release the lock. */
  | 'release'
  | 'begin'
  | 'read'
  | 'write'
  /** COMMIT is being sent. */
  | 'commit'
  | 'committed'
  | 'rolled back'
  /** The lock told its holder that it is lost. */
  | 'told'
  /** The release failed, because the lock was no longer its caller's: the work is done. */
  | 'told late'
  /** It was stopped, and believes now that it holds the lock: its signal has not aborted, and `isHeld` is true. */
  | 'believes'
  /** Refused by the lock or the database with an error that says why. */
  | 'refused'
  /** Ended with an error that nobody intended. */
  | 'failed'
  | 'sold'
  | 'sold out'
  /** The version that was read is gone, so the purchase starts again. */
  | 'retry'
  /** A Redis command and its reply. */
  | 'command'
  // Noted by the runner:
  | 'killed'
  | 'paused'
  | 'resumed'
  | 'mark';

/** With any of these, a call is over; one that waits may also end its wait with `hold`. */
export const CALL_ENDS: readonly EventKind[] = [
  'sold',
  'sold out',
  'failed',
  'refused',
  'told late',
  'killed',
  'retry',
];

/** CLOCK_MONOTONIC of Linux, which is one clock for all processes of the machine. */
export function monotonicMs(): number {
  return Number(process.hrtime.bigint() / 1_000n) / 1_000;
}
