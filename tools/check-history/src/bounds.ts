import type { HistoryLine } from './history.js';

/** How long something may take while nothing disturbs it, in milliseconds. */
export interface Bounds {
  /** A released key may be free beside somebody who waits for it. */
  readonly freeMs: number;
  /** A process may take until it stands in the queue. */
  readonly queuedMs: number;
  /** Somebody may take to see that the lease of a dead holder is over, and to be granted the key. */
  readonly seenMs: number;
  /** Half of the hand-overs may take. */
  readonly handOverMs: number;
  /** A wait may last beyond its limit. */
  readonly overtimeMs: number;
  /** A timer may be late, and what is written down after it. */
  readonly timerMs: number;
  /** Whether a command may fail because its packets were lost, although nothing was disturbed. */
  readonly mayFail: boolean;
}

/** Packets may be lost more than once, and be sent again. */
const USUAL: Bounds = {
  freeMs: 2_000,
  queuedMs: 2_000,
  seenMs: 900,
  handOverMs: 250,
  overtimeMs: 1_000,
  timerMs: 100,
  mayFail: true,
};

/** A message takes a millisecond or two, so nobody waits for a poll: between two looks, there are 25 to 46 ms. */
const QUIET: Bounds = {
  freeMs: 50,
  queuedMs: 15,
  seenMs: 100,
  handOverMs: 8,
  overtimeMs: 40,
  timerMs: 10,
  mayFail: false,
};

export function boundsOf(lines: readonly HistoryLine[]): Bounds {
  return lines.some(({ type }) => type === 'quiet network') ? QUIET : USUAL;
}
