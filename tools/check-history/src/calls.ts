import type { Bounds } from './bounds.js';
import type { HistoryLine } from './history.js';

/** A place in the history. */
interface Moment {
  readonly at: number;
  readonly index: number;
}

/** What one call did, gathered from its lines. */
export interface Call {
  /** For messages. */
  readonly name: string;
  readonly process: string;
  readonly keys: readonly string[];
  readonly waitMs: number;
  readonly leaseMs: number;
  readonly keepMs: number;
  /** Whether it holds its keys together with others that read; of several in different modes, that of one at a time. */
  readonly reads: boolean;
  /** The keys that it holds so. */
  readonly readKeys: readonly string[];
  /** The keys of which it wants permits, and how many there are of each. */
  readonly permits: Readonly<Record<string, number>>;
  readonly weight: number;
  /** How many permits there are of the key in question; undefined if it wants that otherwise. */
  readonly most: number | undefined;
  readonly slots: Readonly<Record<string, number>>;
  /** The text under which it goes on. */
  readonly adopts: string | undefined;
  /** The time for which it wants to detach its lock; 0 if it does not. */
  readonly detachMs: number;
  /** The text as which its lock may go on, when that was known, and until when nobody else gets the keys. */
  readonly detached: (Moment & { readonly text: string; readonly until: number }) | undefined;
  readonly calledAt: Moment;
  readonly entered: (Moment & { readonly believed: boolean }) | undefined;
  readonly fences: Readonly<Record<string, number>>;
  /** When it acted and believed for the last time. */
  readonly actsUntil: Moment;
  /** Until when it was told that it has the lock, and in which line, in the order of the lines. */
  readonly assurances: readonly Assurance[];
  /** Its first effect after the latest end that it was told of, and that end. */
  readonly overdue: { readonly at: number; readonly endedAt: number } | undefined;
  /** When its work was over. */
  readonly leftAt: number | undefined;
  /** When others may have the key, at the latest. */
  readonly freeAt: number;
  readonly outcome: Extract<HistoryLine, { type: 'ended' }>['outcome'] | undefined;
  readonly endedAt: number | undefined;
  readonly error: string | undefined;
  /** For how long its process stood still meanwhile. */
  readonly pausedMs: number;
  readonly diedAt: number | undefined;
}

interface Assurance {
  readonly index: number;
  readonly until: number;
}

/**
 * How long the lease of a call may last without it: its work may have asked for a longer one, or to detach it.
 * @param index what it was told before this line counts. @default all
 */
export function leaseLastsUntil(
  { leaseMs, detachMs, assurances, calledAt }: Call,
  at: number,
  index = Infinity,
): number {
  const known = assurances.findLast((assurance) => assurance.index < index)?.until ?? -Infinity;
  return Math.max(at + Math.max(leaseMs, detachMs), endInStore(known, calledAt.at));
}

/** The holder of a lease counts it as over a hundredth of it earlier than the store. */
function endInStore(until: number, calledAt: number): number {
  return until + Math.max(5, (until - calledAt) / 99);
}

export function readCalls(lines: readonly HistoryLine[], { timerMs }: Bounds): Call[] {
  const calls = new Map<string, CallBeingRead>();
  const paused = new Set<string>();
  lines.forEach((line, index) => {
    if ('call' in line) {
      const name = `${line.process}/${line.call}`;
      if (line.type !== 'called') return calls.get(name)?.read(line, index);
      const call = new CallBeingRead(name, line, index, timerMs);
      calls.set(name, call);
      // It was made before the last sign of life.
      if (paused.has(line.process)) call.ofProcess({ ...line, type: 'paused' });
    } else if ('process' in line) {
      if (line.type === 'paused') paused.add(line.process);
      else paused.delete(line.process);
      for (const call of calls.values()) if (call.process === line.process) call.ofProcess(line);
    }
  });
  const all = [...calls.values()];
  for (const call of all) if (call.entered?.believed === true) adopted(call, all);
  return all;
}

/** A lock that is detached is taken until somebody adopts it, who then has it. */
function adopted({ adopts, entered }: CallBeingRead, calls: readonly CallBeingRead[]): void {
  const from = calls.find(({ detached }) => adopts !== undefined && detached?.text === adopts);
  if (from !== undefined && entered !== undefined) from.freeAt = Math.min(from.freeAt, entered.at);
}

export type Entered = Call & { readonly entered: NonNullable<Call['entered']> };

/** The calls that want this key, each as it wants this one. */
export function callsFor(key: string, calls: readonly Call[]): Call[] {
  return calls
    .filter(({ keys }) => keys.includes(key))
    .map((call) => ({
      ...call,
      reads: call.readKeys.includes(key),
      most: call.permits[key],
    }));
}

/** Those that were told that they hold their keys, in the order in which they were told. */
export function entriesInto(calls: readonly Call[]): Entered[] {
  return calls
    .filter((call): call is Entered => call.entered?.believed === true)
    .sort((a, b) => a.entered.index - b.entered.index);
}

/**
 * The calls of one process that want a key in the same mode have one place in the queue, and may pass the key on among
 * themselves.
 */
export function isPartyOf(call: Call): (other: Call) => boolean {
  return ({ process, reads, most }) =>
    process === call.process &&
    reads === call.reads &&
    (most === undefined) === (call.most === undefined);
}

/** When a call got its keys, or gave up. */
export function waitedUntil({ entered, endedAt, diedAt }: Call): number {
  return Math.min(entered?.at ?? Infinity, endedAt ?? Infinity, diedAt ?? Infinity);
}

type Line<Type extends HistoryLine['type']> = Extract<HistoryLine, { type: Type }>;

class CallBeingRead implements Call {
  readonly process: string;
  readonly keys: readonly string[];
  readonly waitMs: number;
  readonly leaseMs: number;
  readonly keepMs: number;
  readonly reads: boolean;
  readonly readKeys: readonly string[];
  readonly permits: Call['permits'];
  readonly weight: number;
  readonly most: number | undefined = undefined;
  slots: Call['slots'] = {};
  readonly adopts: string | undefined;
  detachMs = 0;
  detached: Call['detached'];
  readonly calledAt: Moment;
  entered: Call['entered'];
  fences: Call['fences'] = {};
  actsUntil: Moment = { at: -Infinity, index: -1 };
  leftAt: number | undefined;
  freeAt = Infinity;
  outcome: Call['outcome'];
  endedAt: number | undefined;
  error: string | undefined;
  pausedMs = 0;
  diedAt: number | undefined;
  overdue: Call['overdue'];
  readonly assurances: Assurance[] = [];
  #pausedAt: number | undefined;
  #detachesAt = 0;
  #leftUntil = -Infinity;

  constructor(
    readonly name: string,
    line: Line<'called'>,
    index: number,
    private readonly timerMs: number,
  ) {
    const { process, keys, waitMs, leaseMs, keepMs = 0, mode, at } = line;
    this.process = process;
    this.keys = keys;
    this.permits = line.permits ?? {};
    this.weight = line.weight ?? 1;
    this.adopts = line.adopts;
    this.waitMs = waitMs;
    this.leaseMs = leaseMs;
    this.keepMs = keepMs;
    this.readKeys = typeof mode === 'object' ? mode.reads : mode === 'shared' ? keys : [];
    this.reads = this.readKeys.length === keys.length;
    this.calledAt = { at, index };
  }

  get #assuredUntil(): number {
    return this.assurances.at(-1)?.until ?? Infinity;
  }

  get #keptUntil(): number {
    if (this.entered === undefined) return -Infinity;
    return Math.max(this.entered.at + this.keepMs, this.#leftUntil);
  }

  read(line: Extract<HistoryLine, { call: string }>, index: number): void {
    switch (line.type) {
      case 'entered':
        this.entered = { at: line.at, index, believed: line.believed };
        this.fences = line.fences;
        this.slots = line.slots ?? {};
        this.actsUntil = this.entered;
        return;
      case 'assured':
        if (line.until !== this.#assuredUntil) this.assurances.push({ index, until: line.until });
        return;
      case 'effect':
        this.actsUntil = { at: line.at, index };
        // While it stood still, another reader may have prolonged the lease that they share.
        if (line.at > this.#assuredUntil + this.timerMs && !(this.reads && this.pausedMs > 0)) {
          this.overdue ??= { at: line.at, endedAt: this.#assuredUntil };
        }
        return;
      case 'left':
        this.leftAt = line.at;
        if (this.detached === undefined) this.freeAt = Math.max(line.at, this.#keptUntil);
        return;
      case 'detaches':
        this.detachMs = line.forMs;
        this.#detachesAt = line.at;
        return;
      case 'detached': {
        const { at, text } = line;
        this.detached = { at, index, text, until: this.#detachesAt + this.detachMs };
        this.leftAt = at;
        this.freeAt = leaseLastsUntil(this, at);
        return;
      }
      case 'ended':
        this.outcome = line.outcome;
        this.error = line.error;
        this.endedAt = line.at;
        if (this.detached !== undefined) return;
        this.freeAt = Math.min(this.freeAt, Math.max(line.at, this.#keptUntil));
        return;
      case 'called':
        throw new Error(`${this.name} was called twice`);
    }
  }

  ofProcess({
    type,
    at,
  }: Extract<HistoryLine, { type: 'paused' | 'continued' | 'died' | 'closed' }>): void {
    if (this.endedAt !== undefined) return;
    if (type === 'paused') this.#pausedAt ??= at;
    if (type === 'continued' && this.#pausedAt !== undefined) {
      this.pausedMs += at - this.#pausedAt;
      this.#pausedAt = undefined;
    }
    // A closed process releases nothing more: the lease ends by itself.
    if (type === 'closed') this.#leftUntil = leaseLastsUntil(this, at);
    if (type !== 'died') return;
    this.diedAt = at;
    if (this.detached !== undefined) return;
    this.freeAt = Math.min(this.freeAt, leaseLastsUntil(this, at));
  }
}
