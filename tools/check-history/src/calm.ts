import { type Absence, tooManyAway } from './absences.js';
import { type Bounds, boundsOf } from './bounds.js';
import type { Call } from './calls.js';
import type { HistoryLine, OfProcess } from './history.js';

/** For how long nobody gets a key that was taken away, and how long everybody takes to know. */
const TAKEN_AWAY_MS = 1_500;

/** For how long a waiter that does not look again has its place. */
const PLACE_MS = 60_000;

/** How long everything may take to be as before, after something was disturbed. */
export const HEALING_MS = 2_000;

/**
 * How much longer something may take because a minority of the nodes of a quorum is away: a few rounds in which nobody
 * gets enough votes, each of which waits for those that are silent, and turns of processes that do not hear of them.
 */
const MINORITY_MS = 2_000;

export interface Span {
  readonly from: number;
  readonly until: number;
}

interface Disturbance extends Span {
  /** The keys that it concerns; all if there are none. */
  readonly keys: readonly string[] | undefined;
}

interface Events {
  readonly bounds: Bounds;
  readonly disturbances: readonly Disturbance[];
  readonly lacks: readonly Span[];
  /** At which some nodes of a quorum were away. */
  readonly absentNodes: readonly Span[];
  readonly takenAway: readonly (Span & { readonly key: string })[];
  readonly late: readonly { readonly at: number; readonly key: string }[];
  readonly stepsBack: readonly { readonly at: number; readonly byMs: number }[];
  readonly absences: readonly (HistoryLine & OfProcess)[];
  readonly deaths: readonly { readonly at: number; readonly process: string }[];
}

/** When something was done to the server, or to a process. */
export class Calm {
  static in(lines: readonly HistoryLine[]): Calm {
    return new Calm({
      bounds: boundsOf(lines),
      disturbances: [...lines.flatMap((line) => disturbanceIn(line)), ...withoutQuorum(lines)],
      absentNodes: absencesIn(lines),
      lacks: lines.flatMap((line) =>
        line.type === 'memory full' ? [{ from: line.at, until: line.until }] : [],
      ),
      takenAway: lines.flatMap((line) =>
        line.type === 'taken away'
          ? [{ from: line.at, until: line.at + TAKEN_AWAY_MS, key: line.key }]
          : [],
      ),
      late: lines.flatMap((line) => (line.type === 'arrived late' ? [line] : [])),
      stepsBack: lines.flatMap((line) => (line.type === 'clock set back' ? [line] : [])),
      deaths: lines.flatMap((line) => (line.type === 'died' ? [line] : [])),
      absences: lines.flatMap((line) => (isAbsence(line) ? [line] : [])),
    });
  }

  private constructor(private readonly events: Events) {}

  /** What concerns the keys of these calls, and their processes. */
  about(calls: readonly Call[]): Calm {
    const { disturbances, absences, ...others } = this.events;
    const wanted = new Set(calls.flatMap((call) => call.keys));
    const processes = new Set(calls.map(({ process }) => process));
    return new Calm({
      ...others,
      disturbances: disturbances.filter(({ keys }) => keys?.some((key) => wanted.has(key)) ?? true),
      absences: absences.filter(({ process }) => processes.has(process)),
    });
  }

  get bounds(): Bounds {
    return this.events.bounds;
  }

  /** Whether nothing has disturbed the server between these times. */
  ofServer(from: number, until: number): boolean {
    return this.ofServerDespiteLack(from, until) && this.lackIn(from, until) === undefined;
  }

  /** The same, but its memory may have been full. */
  ofServerDespiteLack(from: number, until: number): boolean {
    return !this.events.disturbances.some(isIn(from, until));
  }

  /** The first time, between these, at which its memory was full. */
  lackIn(from: number, until: number): Span | undefined {
    return this.events.lacks.find(isIn(from, until));
  }

  /** Whether all nodes of a quorum were there. */
  ofNodes(from: number, until: number): boolean {
    return !this.events.absentNodes.some(isIn(from, until));
  }

  /** How much longer something may take between these times than the bounds say. */
  slackMs(from: number, until: number): number {
    return this.ofNodes(from, until) ? 0 : MINORITY_MS;
  }

  /**
   * When the server lets go of what it keeps from one time until another by its clock. It may take a
   * moment longer, and is not over at all if its clock is set back before.
   */
  endInServer(from: number, until: number): number {
    return this.events.stepsBack.reduce(
      (end, { at, byMs }) => (at > from && at < end + HEALING_MS ? end + byMs : end),
      until,
    );
  }

  /** Whether nobody has taken the key away. */
  ofKey(key: string, from: number, until: number): boolean {
    return !this.events.takenAway.some((span) => span.key === key && isIn(from, until)(span));
  }

  /** Whether nothing has disturbed the server, and every process went on as usual. */
  ofAll(from: number, until: number): boolean {
    return this.ofServer(from, until) && this.of(() => true, from, until);
  }

  /** How many processes had died by then. One that died without a word still has its place in the queue. */
  deadAt(until: number): number {
    return this.events.deaths.filter(({ at }) => at < until).length;
  }

  /** How many commands for the key that were sent again may still have a place in its queue then. */
  lateAt(key: string, until: number): number {
    const isThere = ({ at }: { readonly at: number }): boolean =>
      at < until && until < at + PLACE_MS;
    return this.events.late.filter((one) => one.key === key && isThere(one)).length;
  }

  /** When the process died or stood still, if it did between these times. */
  stopOf(process: string, from: number, until: number): number | undefined {
    return this.events.absences.find(
      (line) =>
        line.process === process &&
        (line.type === 'died' || line.type === 'paused') &&
        line.at >= from &&
        line.at < until,
    )?.at;
  }

  /** Since when a process has not noticed what was disturbed: it notices only after it has stood still. */
  unnoticedSince(process: string, at: number): number {
    const own = this.events.absences.filter((line) => line.process === process);
    const last = own.findLast(
      (line) => line.type === 'continued' && line.at <= at && line.at > at - HEALING_MS,
    );
    const pause = own.findLast((line) => line.type === 'paused' && line.at < (last?.at ?? 0));
    return (pause?.at ?? at) - HEALING_MS;
  }

  /** Whether these processes went on as usual. */
  of(isMeant: (process: string) => boolean, from: number, until: number): boolean {
    return !this.events.absences.some(
      ({ at, process }) => at > from && at < until && isMeant(process),
    );
  }
}

function disturbanceIn(line: HistoryLine): Disturbance[] {
  const { at, type } = line;
  if (type === 'disturbed') return [{ from: at, until: line.until ?? at, keys: line.keys }];
  const isAtOnce = ['clock set back', 'clock set forward', 'lost data'].includes(type);
  return isAtOnce ? [{ from: at, until: at, keys: undefined }] : [];
}

function absencesIn(lines: readonly HistoryLine[]): Absence[] {
  return lines.flatMap((line) =>
    line.type === 'node away' ? [{ node: line.node, from: line.at, until: line.until }] : [],
  );
}

/** When so many nodes were away that the others were too few. */
function withoutQuorum(lines: readonly HistoryLine[]): Disturbance[] {
  const size = lines.find((line) => line.type === 'quorum')?.size ?? Infinity;
  const most = Math.floor((size - 1) / 2);
  const always = { from: -Infinity, until: Infinity };
  return tooManyAway(absencesIn(lines), most, always).map((span) => ({ ...span, keys: undefined }));
}

function isIn(from: number, until: number): (span: Span) => boolean {
  return (span) => span.until > from && span.from < until;
}

function isAbsence(line: HistoryLine): line is HistoryLine & OfProcess {
  return ['died', 'paused', 'continued', 'closed'].includes(line.type);
}
