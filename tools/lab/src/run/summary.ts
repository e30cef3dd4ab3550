import type { LabEvent } from '../work/events.js';
import { holdsIn, overlapMs, overlapsOf } from './holds.js';
import { spansIn } from './spans.js';
import type { Trial } from './trial.js';

/** The longest wait of a caller that got in. */
export function longestWaitMs(events: readonly LabEvent[]): number {
  const waits = spansIn(events, 0, 'wait', ['hold', 'sold', 'sold out', 'failed', 'refused']);
  const served = waits.filter(({ endedBy }) => endedBy === 'hold');
  return Math.max(0, ...served.map(({ from, until }) => until - from));
}

export function inSeconds(ms: number): string {
  return ms < 95 ? `${Math.round(ms)} ms` : `${(ms / 1_000).toFixed(1)} s`;
}

/** What happened, with times, in one line. */
export function summaryOf({
  events,
  seen,
  stock,
}: Pick<Trial, 'events' | 'seen' | 'stock'>): string {
  const parts: string[] = [];
  const together = overlapMs(overlapsOf(holdsIn(events)));
  const { start, left, sold } = stock;
  if (start - left !== sold)
    parts.push(`sold ${sold}, but the stock went from ${start} to ${left}`);
  if (together > 0) parts.push(`two held it for ${inSeconds(together)}`);
  parts.push(...new Set(seen.map(({ text }) => text)));
  const failed = events.filter(({ kind }) => kind === 'failed');
  if (failed.length > 0) parts.push(`${times(failed.length)} failed: ${failed[0]?.text}`);
  for (const { lane, text } of events.filter(({ kind }) => kind === 'told')) {
    parts.push(`${lane} was told: ${text}`);
  }
  for (const { lane, text } of events.filter(({ kind }) => kind === 'told late')) {
    parts.push(`${lane} was told at its release: ${text}`);
  }
  for (const { lane, text } of events.filter(({ kind }) => kind === 'refused')) {
    parts.push(`${lane} was refused: ${text}`);
  }
  const waited = longestWaitMs(events);
  if (waited > 0) parts.push(`waited ${inSeconds(waited)}`);
  return parts.join('; ');
}

function times(count: number): string {
  return count === 1 ? '1 call' : `${count} calls`;
}
