import type { Enter } from './manual-hold.js';

/** One call of a locked method. */
export interface LockedCall {
  /** What messages call the method. */
  readonly label: string;
  readonly enter: Enter;
  /** Runs the method itself. */
  readonly run: () => unknown;
}
