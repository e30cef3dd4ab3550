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

/**
 * No key is handed over: who is told of a turn looks after 1 to 21 ms, and then needs a round. If nobody gets enough
 * votes, all ask again, up to 48 ms later, and a turn that is not used lasts for 100 ms.
 */
const QUIET_QUORUM: Bounds = {
  ...QUIET,
  freeMs: 200,
  seenMs: 250,
  handOverMs: 30,
  overtimeMs: 150,
};

export function boundsOf(lines: readonly HistoryLine[]): Bounds {
  const isQuiet = lines.some(({ type }) => type === 'quiet network');
  const isOfQuorum = lines.some(({ type }) => type === 'quorum');
  if (!isQuiet) return USUAL;
  return isOfQuorum ? QUIET_QUORUM : QUIET;
}
