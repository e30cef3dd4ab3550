import type { EventKind, LabEvent } from '../work/events.js';
import type { Span } from './spans.js';

/** The time during which a caller had the lock, as far as it could know. */
export interface Hold extends Span {
  /** Whether the caller heard of its loss: in time, late, which is by its release when the work was done, or never. */
  readonly told: 'in time' | 'late' | 'never';
  readonly killed: boolean;
}

export interface Overlap {
  readonly first: Hold;
  readonly second: Hold;
  readonly from: number;
  readonly until: number;
}

/**
 * The holds, according to what the callers noted. A hold ends when the holder has finished, was killed or was told of
 * its loss. That of a process that stood still ends when it stands still, if nothing comes of it any more: if it has
 * done nothing afterwards that the lock guards, and has not believed that it holds the lock.
 */
export function holdsIn(events: readonly LabEvent[]): Hold[] {
  const holds: Hold[] = [];
  const toldLate = (lane: string): void => {
    const n = holds.findLastIndex((hold) => hold.lane === lane);
    const hold = holds[n];
    if (hold?.told === 'never') holds[n] = { ...hold, told: 'late' };
  };
  const end = events.reduce((last, { at }) => Math.max(last, at), 0);
  const open = new Map<string, { readonly from: number; pausedAt: number | undefined }>();
  const close = (lane: string, at: number, kind?: EventKind): void => {
    const hold = open.get(lane);
    if (hold === undefined) return;
    open.delete(lane);
    const { from, pausedAt } = hold;
    const inTime = pausedAt !== undefined || kind === 'told' || kind === 'refused';
    const told = inTime ? 'in time' : 'never';
    holds.push({ lane, from, until: pausedAt ?? at, told, killed: kind === 'killed' });
  };
  for (const { at, lane, kind } of events) {
    if (ENDS.has(kind)) close(lane, at, kind);
    if (kind === 'told late') toldLate(lane);
    if (kind === 'hold') open.set(lane, { from: at, pausedAt: undefined });
    const hold = open.get(lane);
    if (hold === undefined) continue;
    if (kind === 'paused') hold.pausedAt ??= at;
    if (GOES_ON.has(kind)) hold.pausedAt = undefined;
  }
  for (const lane of [...open.keys()]) close(lane, end);
  return holds.sort((a, b) => a.from - b.from);
}

/** What shows that a holder has gone on: what PostgreSQL has answered, and what it believes. */
const GOES_ON: ReadonlySet<EventKind> = new Set(['read', 'committed', 'believes']);

const ENDS: ReadonlySet<EventKind> = new Set([
  'hold', // once more
  'release',
  'sold',
  'sold out',
  'failed',
  'retry',
  'told',
  'told late',
  'refused',
  'killed',
]);

export function overlapsOf(holds: readonly Hold[]): Overlap[] {
  return holds.flatMap((first, n) =>
    holds
      .slice(n + 1)
      .filter(({ from }) => from < first.until)
      .map((second) => ({
        first,
        second,
        from: second.from,
        until: Math.min(first.until, second.until),
      })),
  );
}

/** How long two or more callers were inside at the same time. */
export function overlapMs(overlaps: readonly Overlap[]): number {
  let total = 0;
  let reached = -Infinity;
  for (const { from, until } of [...overlaps].sort((a, b) => a.from - b.from)) {
    total += Math.max(0, until - Math.max(from, reached));
    reached = Math.max(reached, until);
  }
  return total;
}
