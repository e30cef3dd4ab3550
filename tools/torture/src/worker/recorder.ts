import {
  type Lock,
  LockError,
  LockLostError,
  type LockOptions,
  LockStoreError,
} from 'nestjs-locked';
import type { Entry } from '../history/entry.js';
import type { HistoryFile } from '../history/history-file.js';
import { monotonicMs } from '../history/monotonic-ms.js';

/** JSON has no Infinity. */
const FOREVER_MS = 1e12;

/** The defaults of the service that is used, and its name in the history. */
export interface ServiceTerms {
  readonly id: string;
  readonly waitMs: number;
  readonly leaseMs: number;
  readonly maxHoldMs: number;
  readonly lingerMs: number;
}

export interface Question {
  readonly what: string;
  readonly service: ServiceTerms;
  readonly keys: readonly string[];
  readonly options: LockOptions;
  readonly parent: RecordedCall | undefined;
}

/** Writes down what the calls of a process see, at the moment they see it. */
export class Recorder {
  readonly process: string;
  readonly #history: HistoryFile;
  readonly #open = new Set<RecordedCall>();
  /** Whether the clocks of this process were set or stood still a moment ago. */
  readonly wasClockDisturbed: () => boolean;
  #asked = 0;

  constructor(process: string, history: HistoryFile, wasClockDisturbed: () => boolean) {
    this.process = process;
    this.wasClockDisturbed = wasClockDisturbed;
    this.#history = history;
  }

  append(entry: Entry): void {
    this.#history.append(entry);
  }

  wrong(what: string): void {
    this.append({ kind: 'wrong', at: monotonicMs(), process: this.process, what });
  }

  ask(question: Question): RecordedCall {
    const { what, service, keys, options, parent } = question;
    const call = new RecordedCall(this, `${service.id}/${++this.#asked}`, question);
    const finite = (ms: number): number => Math.min(ms, FOREVER_MS);
    this.append({
      kind: 'asked',
      at: monotonicMs(),
      call: call.id,
      what,
      process: this.process,
      service: service.id,
      keys: [...new Set(keys)].sort(),
      ...(parent !== undefined && { parent: parent.id }),
      waitMs: finite(options.waitMs ?? service.waitMs),
      leaseMs: options.leaseMs ?? service.leaseMs,
      maxHoldMs: finite(options.maxHoldMs ?? service.maxHoldMs),
      renew: options.renew ?? true,
      holdAtLeastMs: options.holdAtLeastMs ?? 0,
      lingerMs: service.lingerMs,
    });
    return call;
  }

  /** A process that is killed cannot say when its holds were over, so it says beforehand how long they may last. */
  noteDeadlines(): void {
    for (const call of this.#open) call.noteDeadline();
  }

  opened(call: RecordedCall): void {
    this.#open.add(call);
  }

  closed(call: RecordedCall): void {
    this.#open.delete(call);
  }

  /** How many calls hold a lock at this moment. */
  get openCalls(): number {
    return this.#open.size;
  }
}

/** One call, from its request to its end. */
export class RecordedCall {
  readonly id: string;
  readonly question: Question;
  readonly #recorder: Recorder;
  #lock: Lock | undefined;
  #signal: AbortSignal | undefined;
  #validUntil = -Infinity;
  #onLost: () => void = () => {};

  constructor(recorder: Recorder, id: string, question: Question) {
    this.#recorder = recorder;
    this.id = id;
    this.question = question;
  }

  /** The keys that may be found in the async context of this call, because it or a call around it holds them. */
  get ambientKeys(): readonly string[] {
    return [...this.question.keys, ...(this.question.parent?.ambientKeys ?? [])];
  }

  get wasHeld(): boolean {
    return this.#lock !== undefined;
  }

  held(lock: Lock): void {
    this.#lock = lock;
    this.#recorder.append({
      kind: 'held',
      at: monotonicMs(),
      call: this.id,
      tokens: Object.fromEntries(lock.keys.map((key) => [key, lock.fencingTokenOf(key)])),
      remainingMs: lock.remainingMs(),
    });
    this.#checkKeys(lock);
    this.noteDeadline();
    this.#recorder.opened(this);
    this.#signal = lock.signal;
    if (this.#signal.aborted) this.#lost();
    else this.#signal.addEventListener('abort', this.#lost, { once: true });
  }

  /** Also called when the hold is lost: what the listener of the hold's signal sees. */
  whenLost(listener: () => void): void {
    this.#onLost = listener;
  }

  noteDeadline(): void {
    const lock = this.#lock;
    if (lock === undefined) return;
    const remainingMs = lock.remainingMs();
    const until = monotonicMs() + remainingMs;
    if (remainingMs <= 0 || until < this.#validUntil + 1) return;
    if (this.#signal?.aborted === true) {
      this.#recorder.wrong(
        `${this.id} holds its keys for ${remainingMs} ms although it was told of their loss`,
      );
    }
    this.#validUntil = until;
    this.#recorder.append({ kind: 'valid', at: monotonicMs(), call: this.id, until });
  }

  ensured(ms: number): void {
    this.#recorder.append({ kind: 'ensured', at: monotonicMs(), call: this.id, ms });
  }

  aborted(): void {
    this.#recorder.append({ kind: 'aborted', at: monotonicMs(), call: this.id });
  }

  /** The work is over. The release comes after this. */
  ended(): void {
    this.noteDeadline();
    this.#checkEnd();
    this.#recorder.closed(this);
    this.#recorder.append({ kind: 'ended', at: monotonicMs(), call: this.id });
    this.#signal?.removeEventListener('abort', this.#lost);
  }

  released(answer: boolean | 'unknown' | 'unsaid'): void {
    this.#recorder.append({ kind: 'released', at: monotonicMs(), call: this.id, answer });
    if (this.#lock?.isHeld === true) {
      this.#recorder.wrong(`${this.id} holds its keys although they were released`);
    }
  }

  refused(error: unknown): void {
    const code = error instanceof LockError ? error.code : 'NO_LOCK_ERROR';
    const message = error instanceof Error ? error.message : String(error);
    this.#recorder.append({ kind: 'refused', at: monotonicMs(), call: this.id, code, message });
  }

  busy(): void {
    const message = 'answered without an error';
    this.#recorder.append({
      kind: 'refused',
      at: monotonicMs(),
      call: this.id,
      code: 'LOCK_NOT_ACQUIRED',
      message,
    });
  }

  readonly #lost = (): void => {
    const at = monotonicMs();
    const reason: unknown = this.#signal?.reason;
    if (!(reason instanceof LockLostError)) {
      this.#recorder.wrong(`${this.id} was told of a loss with ${String(reason)}`);
      return;
    }
    const key = reason.key ?? '';
    this.#recorder.append({ kind: 'lost', at, call: this.id, key, reason: reason.reason });
    if (this.#lock?.isHeld === true) {
      this.#recorder.wrong(`${this.id} holds its keys although its signal has aborted`);
    }
    this.#onLost();
  };

  /**
   * A call that does not hold its keys any more must learn it in each of the three ways. Just after its clocks were set
   * or stood still, its process may say instead that it does not know.
   */
  #checkEnd(): void {
    const lock = this.#lock;
    if (lock === undefined || lock.isHeld) return;
    const error = errorOf(() => lock.assertHeld());
    if (error instanceof LockStoreError && this.#recorder.wasClockDisturbed()) return;
    if (!(error instanceof LockLostError)) {
      this.#recorder.wrong(
        `${this.id} does not hold its keys any more and assertHeld() gave ${String(error)}`,
      );
    }
    if (!lock.signal.aborted) {
      this.#recorder.wrong(
        `${this.id} does not hold its keys any more and its signal did not abort`,
      );
    }
  }

  #checkKeys(lock: Lock): void {
    const asked = [...new Set(this.question.keys)].sort().join();
    const got = [...lock.keys].sort().join();
    if (asked !== got) this.#recorder.wrong(`${this.id} asked for ${asked} and got ${got}`);
  }
}

function errorOf(act: () => void): unknown {
  try {
    act();
    return undefined;
  } catch (error) {
    return error;
  }
}
