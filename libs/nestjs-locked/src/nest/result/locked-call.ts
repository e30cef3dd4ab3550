import type { Enter, WhenTooLateToRead } from './manual-hold.js';

/** One call of a locked method. */
export interface LockedCall {
  /** The caller's name in messages: `StockService.take`. */
  readonly callSite: string;
  readonly enter: Enter;
  /** Runs the method itself. */
  readonly run: () => unknown;
  /**
   * Whether an Observable keeps the lock after its subscriber has left until its first value, end or error, because
   * until then it is unknown whether the method is still working. @default false
   */
  readonly staysUntilFirstValue?: boolean;
  /** Calls back when it is too late to begin reading the result of a Promise. @default never */
  readonly whenTooLateToRead?: WhenTooLateToRead;
}
