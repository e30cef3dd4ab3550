import { type Hold, holdsIn, type Overlap, overlapsOf } from '../run/holds.js';
import { type Span, spansIn } from '../run/spans.js';
import type { Trial } from '../run/trial.js';
import { CALL_ENDS, type EventKind, type LabEvent } from '../work/events.js';

/** Something that happened at one moment, and is described under the picture. */
export interface Moment {
  readonly at: number;
  /** Empty if it concerns all lanes. */
  readonly lane: string;
  readonly kind: 'done' | 'killed' | 'paused' | 'resumed' | 'told' | 'late' | 'failed' | 'expired';
  readonly text: string;
}

/** What a picture of a trial shows. Times are milliseconds from the first thing that a caller did. */
export interface Timeline {
  readonly lanes: readonly string[];
  readonly ms: number;
  readonly waits: readonly Span[];
  readonly holds: readonly Hold[];
  readonly overlaps: readonly Overlap[];
  /** Neither committed nor rolled back are those that were cut. */
  readonly transactions: readonly (Span & { readonly endedBy: EventKind | undefined })[];
  readonly pauses: readonly Span[];
  readonly commands: readonly {
    readonly lane: string;
    readonly at: number;
    readonly text: string;
  }[];
  readonly moments: readonly Moment[];
  /** When the key was in Redis. */
  readonly keys: readonly Omit<Span, 'lane'>[];
  readonly results: ReadonlyMap<string, string>;
}

export function timelineOf({ accident, lanes, events, keyEvents: all }: Trial): Timeline {
  const ms = Math.max(1, ...events.map(({ at }) => at));
  const holds = holdsIn(events);
  const keyEvents = all.filter(({ at }) => at >= 0 && at <= ms + 5);
  return {
    lanes: [...lanes].sort((a, b) => a.localeCompare(b, 'en', { numeric: true })),
    ms,
    waits: spansIn(events, ms, 'wait', ['hold', ...CALL_ENDS]),
    holds,
    overlaps: overlapsOf(holds),
    transactions: spansIn(events, ms, 'begin', TRANSACTION_ENDS),
    pauses: spansIn(events, ms, 'paused', ['resumed']),
    commands: commandsShown(events).map(({ lane, at, text = '' }) => ({ lane, at, text })),
    moments: momentsOf(events, accident === 'sale' ? [] : keyEvents),
    keys: spansIn(
      keyEvents.map((event) => ({ ...event, lane: '' })),
      ms,
      'set',
      ['removed', 'expired'],
    ),
    results: new Map(lanes.map((lane) => [lane, resultOf(events, lane)])),
  };
}

const TRANSACTION_ENDS = ['committed', 'rolled back', 'killed', 'failed', 'refused'] as const;

/** A waiter that spins sends the same commands again and again, so only what is new is shown. */
export function commandsShown(events: readonly LabEvent[]): LabEvent[] {
  const said = new Map<string, string[]>();
  return events.filter(({ lane, kind, text = '' }) => {
    if (kind === 'hold' || kind === 'wait') said.set(lane, []);
    if (kind !== 'command') return false;
    const before = said.get(lane) ?? [];
    if (before.includes(text)) return false;
    said.set(lane, [...before, text]);
    return true;
  });
}

/** The events that are moments, and what is said between the caller and the text of the event. */
const MOMENTS: Partial<Record<EventKind, readonly [kind: Moment['kind'], words?: string]>> = {
  mark: ['done'],
  killed: ['killed'],
  paused: ['paused'],
  resumed: ['resumed'],
  told: ['told', ' is told that its lock is lost'],
  'told late': ['late', ' is told at its release'],
  refused: ['told', ' is refused'],
  failed: ['failed', ' fails'],
};

const MOST_MOMENTS = 9;

function momentsOf(events: readonly LabEvent[], keyEvents: Trial['keyEvents']): Moment[] {
  const moments = events.flatMap(({ at, lane, kind: event, text = '' }): Moment[] => {
    const [kind, words = ''] = MOMENTS[event] ?? [];
    if (kind === undefined) return [];
    const isMark = event === 'mark';
    const sentence = isMark ? text[0]?.toUpperCase() + text.slice(1) : `${lane}${words}: ${text}`;
    return [{ at, lane, kind, text: sentence }];
  });
  const expiries = keyEvents
    .filter(({ kind }) => kind === 'expired')
    .map(({ at }): Moment => ({
      at,
      lane: '',
      kind: 'expired',
      text: 'The lock expires in Redis',
    }));
  return [...moments, ...expiries].sort((a, b) => a.at - b.at).slice(0, MOST_MOMENTS);
}

function resultOf(events: readonly LabEvent[], lane: string): string {
  const ends = events.filter((event) => event.lane === lane && CALL_ENDS.includes(event.kind));
  if (ends.length === 0) return 'still waiting at the end';
  const counts = new Map<string, number>();
  for (const { kind } of ends) counts.set(kind, (counts.get(kind) ?? 0) + 1);
  return [...counts]
    .map(([kind, count]) => (count === 1 ? kind : `${kind} ${count} times`))
    .join(', ');
}

/** For a reader: whole milliseconds, and seconds from one second. */
export function milliseconds(ms: number): string {
  return ms < 1_000 ? `${Math.round(ms)} ms` : `${(ms / 1_000).toFixed(2)} s`;
}

export function period({ from, until }: Omit<Span, 'lane'>): string {
  return `${milliseconds(from)} to ${milliseconds(until)}`;
}
