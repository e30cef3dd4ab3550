import type { HistoryLine } from 'check-history';
import type { CallView, LogLine, Span } from '../view.js';
import { shortFence } from './fences.js';
import { logLine } from './log-text.js';

/** How many stretches of time are kept: more than the picture shows. */
const MOST_SPANS = 400;

type Open = { -readonly [Name in keyof Span]: Span[Name] };

/** What the calls of all processes do, from the history that they tell. */
export class Calls {
  readonly #calls = new Map<string, CallView & { readonly process: string }>();
  readonly #troubles = new Map<string, LogLine>();
  readonly #spans: Open[] = [];
  /** Those that have not ended, by what they show. */
  readonly #open = new Map<string, Open>();

  of(process: string): readonly CallView[] {
    return [...this.#calls.values()].filter((call) => call.process === process);
  }

  troubleOf(process: string): LogLine | undefined {
    return this.#troubles.get(process);
  }

  /** Whether a line is of a call that has lost its lock. A call that has done its work looked at that moment. */
  isOfLost(line: HistoryLine): boolean {
    if (line.type !== 'left' && line.type !== 'ended') return false;
    const call = this.#calls.get(idOf(line));
    if (call === undefined) return false;
    return call.state === 'holding' ? line.at > call.assuredAt : call.isLost;
  }

  /** Those that end after this moment. */
  spansSince(from: number, now: number): readonly Span[] {
    return this.#spans
      .map((span) => ({ ...span, to: Math.min(span.to, now) }))
      .filter(({ to }) => to >= from);
  }

  /** Changes the stretch that a row shows, unless it is the same. */
  show(id: string, span: Omit<Span, 'from' | 'to'> | undefined, now: number): void {
    const open = this.#open.get(id);
    if (open !== undefined && span?.of === open.of && span.kind === open.kind) return;
    this.#end(id, now);
    if (span !== undefined) this.#begin(id, span, now);
  }

  hear(line: HistoryLine): void {
    const { at } = line;
    switch (line.type) {
      case 'called':
        return this.#called(line);
      case 'entered': {
        const fence = Math.max(0, ...Object.values(line.fences).map(shortFence));
        this.#change(line, { state: 'holding', since: at, fence });
        this.show(idOf(line), { row: line.process, kind: 'holding', of: line.process }, at);
        return;
      }
      case 'assured': {
        this.#change(line, { until: line.until, assuredAt: at });
        const open = this.#open.get(idOf(line));
        if (open !== undefined) open.until = line.until;
        return;
      }
      case 'left':
      case 'detached':
        this.#note(line);
        this.#change(line, { state: 'releasing', since: at, isLost: this.isOfLost(line) });
        return this.#end(idOf(line), at);
      case 'ended':
        if (!this.isOfLost(line)) this.#troubles.delete(line.process);
        this.#note(line);
        this.#calls.delete(idOf(line));
        return this.#end(idOf(line), at);
      case 'died':
      case 'closed':
        for (const { name } of this.of(line.process)) {
          const id = idOf({ process: line.process, call: name });
          this.#calls.delete(id);
          this.#end(id, at);
        }
        this.#troubles.delete(line.process);
        return;
      case 'effect':
      case 'detaches':
      case 'paused':
      case 'continued':
      case 'ran':
      case 'disturbed':
      case 'memory full':
      case 'taken away':
      case 'quiet network':
      case 'arrived late':
      case 'unspecified':
      case 'quorum':
      case 'node away':
      case 'numbers lost':
      case 'lost data':
      case 'clock set forward':
      case 'clock set back':
      case 'calm':
        return; // of no call, or nothing new
    }
  }

  #called(line: Extract<HistoryLine, { type: 'called' }>): void {
    const { process, call: name, keys, at } = line;
    const nothing = { until: 0, assuredAt: 0, fence: 0, isLost: false };
    const call = { process, name, keys, state: 'waiting', since: at, ...nothing } as const;
    this.#calls.set(idOf(line), call);
    this.show(idOf(line), { row: process, kind: 'waiting', of: process }, at);
  }

  /** Keeps what is bad news for a process. */
  #note(line: HistoryLine & { process: string }): void {
    const said = logLine(line, this.isOfLost(line));
    if (said?.tone === 'bad') this.#troubles.set(line.process, said);
  }

  #change(call: { process: string; call: string }, change: Partial<CallView>): void {
    const before = this.#calls.get(idOf(call));
    if (before !== undefined) this.#calls.set(idOf(call), { ...before, ...change });
  }

  #begin(id: string, span: Omit<Span, 'from' | 'to'>, from: number): void {
    const open = { ...span, from, to: Infinity };
    this.#open.set(id, open);
    this.#spans.push(open);
    if (this.#spans.length > MOST_SPANS) this.#spans.shift();
  }

  #end(id: string, to: number): void {
    const open = this.#open.get(id);
    if (open === undefined) return;
    open.to = to;
    this.#open.delete(id);
  }
}

function idOf({ process, call }: { process: string; call: string }): string {
  return `${process} ${call}`;
}
