import { holdsIn, overlapsOf } from '../run/holds.js';
import { inSeconds, longestWaitMs } from '../run/summary.js';
import type { Trial } from '../run/trial.js';
import type { LabEvent } from '../work/events.js';

const PIECES_EACH = 10;

/** One column of the table of the sale. */
export interface Measure {
  readonly head: string;
  readonly text: string;
  readonly isBad: boolean;
}

/** What was measured in a sale. A "call" sold something or found nothing left: both need the lock. */
export function measuresOf({ events, stock, traffic }: Trial): Measure[] {
  const ends = events.filter(({ kind }) => ENDS.has(kind));
  const first = events[0]?.at ?? 0;
  const last = ends.at(-1)?.at ?? first;
  const calls = Math.max(1, ends.length);
  const gone = stock.start - stock.left;
  const count = (head: string, value: number, isBad = false): Measure => ({
    head,
    text: String(value),
    isBad,
  });
  const measured = (head: string, text: string): Measure => ({ head, text, isBad: false });
  /** What should not happen at all. */
  const damage = (head: string, value: number): Measure => count(head, value, value > 0);
  return [
    count('sold', stock.sold),
    count('gone from the stock', gone, stock.sold !== gone),
    damage('oversold', Math.max(0, stock.sold - stock.start)),
    damage('lost updates', (stock.sold - gone) / PIECES_EACH),
    damage('overlaps', overlapsOf(holdsIn(events)).length),
    damage('refused', events.filter(({ kind }) => kind === 'refused').length),
    // Attempts in vain, because the version had changed.
    count('failed attempts', events.filter(({ kind }) => kind === 'retry').length),
    measured('calls per second', ((calls * 1_000) / Math.max(1, last - first)).toFixed(0)),
    measured('longest wait', inSeconds(longestWaitMs(events))),
    measured('Redis commands per call', (traffic.commands / calls).toFixed(1)),
    measured('bytes per call', (traffic.bytes / calls).toFixed(0)),
    damage('connections held while waiting', mostWaitingInTransaction(events)),
  ];
}

const ENDS = new Set(['sold', 'sold out', 'failed', 'refused', 'told late']);

/** The highest number of connections that waiting callers kept at the same time. */
function mostWaitingInTransaction(events: readonly LabEvent[]): number {
  const inTransaction = new Set<string>();
  const waiting = new Set<string>();
  let most = 0;
  for (const { lane, kind } of events) {
    if (kind === 'begin') inTransaction.add(lane);
    if (kind === 'committed' || kind === 'rolled back') inTransaction.delete(lane);
    if (kind === 'wait') waiting.add(lane);
    if (kind === 'hold' || ENDS.has(kind)) waiting.delete(lane);
    most = Math.max(most, [...waiting].filter((who) => inTransaction.has(who)).length);
  }
  return most;
}
