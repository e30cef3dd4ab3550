import type { Enter, WhenTooLateToRead } from './manual-hold.js';

/** One call of a locked method. */
export interface LockedCall {
  /** Who asks, for messages: `StockService.take`. */
  readonly callSite: string;
  readonly enter: Enter;
  /** Runs the method itself. */
  readonly run: () => unknown;
  /**
   * Whether an Observable whose subscriber leaves keeps the lock until its first value, end or error, because nobody
   * can tell before whether the method still works. @default false
   */
  readonly staysUntilFirstValue?: boolean;
  /** Calls back when nobody begins to read what a Promise has given any more. @default never */
  readonly whenTooLateToRead?: WhenTooLateToRead;
}
