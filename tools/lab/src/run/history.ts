import type { HistoryLine, OfCall } from 'check-history';
import { LEASE_MS } from '../scale.js';
import type { EventKind, LabEvent } from '../work/events.js';

/** What a trial tells of, for a checker that knows nothing of locks, stages and accidents. */
export interface Told {
  readonly events: readonly LabEvent[];
  /** The process of each caller. Without it, each caller is a process of its own. */
  readonly processes?: Readonly<Record<string, string>>;
  /** What the lock guards. */
  readonly key: string;
  /** How long a caller may wait. */
  readonly waitMs: number;
}

/** What a caller heard of the end of its lock: in time, by its release, when its work was done, or nothing. */
export type Heard = 'in time' | 'late' | 'never';

export interface LabHistory {
  readonly lines: readonly HistoryLine[];
  /** By the name that the checker has for a call. Of those that were killed, nothing. */
  readonly heard: ReadonlyMap<string, Heard>;
}

const OUTCOMES: Partial<Record<EventKind, 'done' | 'busy' | 'failed'>> = {
  sold: 'done',
  'sold out': 'done',
  retry: 'busy',
  refused: 'failed',
  failed: 'failed',
  'told late': 'failed',
};

/** What shows that a holder has gone on: what PostgreSQL has answered, and what it believes. */
const GOES_ON: ReadonlySet<EventKind> = new Set(['read', 'committed', 'believes']);

/**
 * A history in the format of `check-history`. What a holder does is an effect, and so is the end of its hold: until
 * then, it may have acted at any moment. A process that stood still has acted only if something shows that it went on,
 * and one that was killed until the last thing that it noted.
 */
export function historyOf({ events, processes = {}, key, waitMs }: Told): LabHistory {
  const lines: HistoryLine[] = [];
  const heard = new Map<string, Heard>();
  const callers = new Map<string, CallerLines>();
  for (const event of events) {
    const { at, lane, kind, text: what = '' } = event;
    if (event.disturbs === true) lines.push({ at, type: 'disturbed', what });
    if (lane === '') continue;
    const process = processes[lane] ?? lane;
    if (kind === 'paused') lines.push({ at, process, type: 'paused' });
    if (kind === 'resumed') lines.push({ at, process, type: 'continued' });
    if (kind === 'killed') lines.push({ at, process, type: 'died' });
    const caller =
      callers.get(lane) ?? new CallerLines({ lines, heard }, process, lane, { key, waitMs });
    callers.set(lane, caller);
    caller.hear(event);
  }
  return { lines, heard };
}

type CallLine = OfCall extends infer Line
  ? Line extends unknown
    ? Omit<Line, 'process' | 'call'>
    : never
  : never;

/** The lines of one caller, call after call. */
class CallerLines {
  #calls = 0;
  #state: 'idle' | 'waiting' | 'holding' | 'left' = 'idle';
  /** It stands still, or has done nothing since that the lock guards. */
  #isStill = false;

  constructor(
    private readonly history: {
      readonly lines: HistoryLine[];
      readonly heard: Map<string, Heard>;
    },
    private readonly process: string,
    private readonly lane: string,
    private readonly wanted: { readonly key: string; readonly waitMs: number },
  ) {}

  hear({ at, kind, fence, leftMs }: LabEvent): void {
    if (kind === 'killed') return this.#killed();
    if (kind === 'told late' && this.#state === 'left') this.#heard('late');
    if (kind === 'wait' && this.#state === 'idle') this.#called(at);
    if (kind === 'hold') this.#entered(at, fence);
    if (leftMs !== undefined) this.#tell(at, { type: 'assured', until: at + leftMs });
    if (this.#state === 'holding') this.#heldWhile(at, kind);
    const outcome = OUTCOMES[kind];
    if (outcome !== undefined) this.#ended(at, outcome);
  }

  #heldWhile(at: number, kind: EventKind): void {
    if (kind === 'paused') this.#isStill = true;
    if (GOES_ON.has(kind)) {
      this.#isStill = false;
      this.#tell(at, { type: 'effect' });
    }
    // Whoever is told of the end of its lock believes no more.
    if (kind === 'told' || kind === 'refused') {
      this.#heard('in time');
      this.#tell(at, { type: 'assured', until: at });
    }
    if (kind === 'told' || kind === 'release' || OUTCOMES[kind] !== undefined) this.#left(at);
  }

  #called(at: number): void {
    this.#calls += 1;
    this.#state = 'waiting';
    const { key, waitMs } = this.wanted;
    this.#tell(at, { type: 'called', keys: [key], waitMs, leaseMs: LEASE_MS });
  }

  #entered(at: number, fence: number | undefined): void {
    // A stage without a lock, or one that has its lock again.
    if (this.#state === 'holding') this.#left(at);
    if (this.#state === 'left') this.#ended(at, 'done');
    if (this.#state === 'idle') this.#called(at);
    this.#state = 'holding';
    this.#heard('never');
    this.#isStill = false;
    const fences = fence === undefined ? {} : { [this.wanted.key]: fence };
    this.#tell(at, { type: 'entered', fences, believed: true });
  }

  #left(at: number): void {
    if (!this.#isStill) this.#tell(at, { type: 'effect' });
    this.#tell(at, { type: 'left' });
    this.#state = 'left';
  }

  #ended(at: number, outcome: 'done' | 'busy' | 'failed'): void {
    if (this.#state === 'idle') return;
    this.#tell(at, { type: 'ended', outcome });
    this.#state = 'idle';
  }

  #killed(): void {
    this.#state = 'idle';
    this.history.heard.delete(this.#name);
  }

  #heard(what: Heard): void {
    const before = this.history.heard.get(this.#name);
    if (what === 'never' || before === 'never') this.history.heard.set(this.#name, what);
  }

  get #name(): string {
    return `${this.process}/${this.#call}`;
  }

  get #call(): string {
    return `${this.lane} ${this.#calls}`;
  }

  #tell(at: number, line: CallLine): void {
    const { process } = this;
    this.history.lines.push({ at, process, call: this.#call, ...line });
  }
}
