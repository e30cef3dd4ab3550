import { LEASE_MS } from '../scale.js';
import { CALL_ENDS, type LabEvent } from '../work/events.js';
import { spansIn } from './spans.js';
import { inSeconds } from './summary.js';
import type { Stock } from './trial.js';

/** What every lock must reach in an accident, however safe it is: one that lets nobody in is safe, too. */
export interface Goal {
  /** How many pieces are sold, at least. */
  readonly sold: number;
  /** How many calls may be refused. @default 0 */
  readonly refused?: number;
  /** How long a caller may wait, at most. */
  readonly waitMs?: number;
}

/** A caller waits for holders that work for longer than a lease lasts, but not for several dead ones. */
export const LONGEST_WAIT_MS = LEASE_MS * 3;

/** What was not reached, in words. */
export function missedOf(goal: Goal, events: readonly LabEvent[], { sold }: Stock): string[] {
  const { refused: allowed = 0, waitMs = LONGEST_WAIT_MS } = goal;
  const refused = events.filter(({ kind }) => kind === 'refused').length;
  const waits = spansIn(events, events.at(-1)?.at ?? 0, 'wait', ['hold', ...CALL_ENDS]);
  const waited = Math.max(0, ...waits.map(({ from, until }) => until - from));
  const parts = [
    sold < goal.sold && `${sold} pieces were sold, and not ${goal.sold}`,
    refused > allowed && `${refused} calls were refused, and ${allowed} may be`,
    waited > waitMs && `somebody waited ${inSeconds(waited)}, and not ${inSeconds(waitMs)} at most`,
  ];
  return parts.filter((part) => part !== false);
}
