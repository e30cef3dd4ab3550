import {
  type Lock,
  LockConfigError,
  LockError,
  LockLostError,
  type LockOptions,
  LockStoreError,
} from 'nestjs-locked';
import type { CallEvents, EntryKinds } from '../history/entry.js';
import { type HistoryFile, monotonicMs } from '../history/history-file.js';

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
  /** Those of the keys that it only reads. */
  readonly reads: readonly string[];
  /** Those of which it wants permits, and how many there are of each. */
  readonly permits?: Readonly<Record<string, number>>;
  readonly options: LockOptions;
  /** The call whose lock it adopts. */
  readonly adopts?: string;
  readonly parent: RecordedCall | undefined;
}

/** Writes down what the calls of a process see, at the moment they see it. */
export class Recorder {
  /** The calls that hold their keys. */
  readonly open = new Set<RecordedCall>();
  #asked = 0;

  /** @param wasClockDisturbed whether the clocks of this process were set or stood still a moment ago */
  constructor(
    readonly process: string,
    readonly history: HistoryFile<EntryKinds>,
    readonly wasClockDisturbed: () => boolean,
  ) {}

  wrong(what: string): void {
    this.history.note('wrong', { process: this.process, what });
  }

  ask(question: Question): RecordedCall {
    const { what, service, keys, reads, permits, options, adopts, parent } = question;
    const call = new RecordedCall(this, `${service.id}/${++this.#asked}`, question);
    const finite = (ms: number): number => Math.min(ms, FOREVER_MS);
    call.note('asked', {
      what,
      process: this.process,
      service: service.id,
      keys: [...new Set(keys)].sort(),
      ...(reads.length > 0 && { reads }),
      ...(permits !== undefined && { permits, weight: options.weight ?? 1 }),
      ...(adopts !== undefined && { adopts }),
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
    for (const call of this.open) call.noteDeadline();
  }
}

/** One call, from its request to its end. */
export class RecordedCall {
  readonly #recorder: Recorder;
  #lock: Lock | undefined;
  #signal: AbortSignal | undefined;
  #validUntil = -Infinity;
  #onLost: () => void = () => {};
  #isDetached = false;

  constructor(
    recorder: Recorder,
    readonly id: string,
    readonly question: Question,
  ) {
    this.#recorder = recorder;
  }

  note<Kind extends keyof CallEvents>(kind: Kind, told: CallEvents[Kind], at?: number): void {
    const entry = { call: this.id, ...told } as EntryKinds[Kind];
    this.#recorder.history.note(kind, entry, at);
  }

  /** Something that must never happen to a call. */
  wrong(what: string): void {
    this.#recorder.wrong(`${this.id} ${what}`);
  }

  /** The keys that may be found in the async context of this call, because it or a call around it holds them. */
  get ambientKeys(): readonly string[] {
    return [...this.question.keys, ...(this.question.parent?.ambientKeys ?? [])];
  }

  /** Whether this call or one around it asked for the key in order to read. */
  readsAround(key: string): boolean {
    const { reads, parent } = this.question;
    return reads.includes(key) || parent?.readsAround(key) === true;
  }

  /** How many permits of the key this call has asked for, or the one around it that has any. */
  weightAround(key: string): number | undefined {
    const { permits, options, parent } = this.question;
    if (permits?.[key] !== undefined) return options.weight ?? 1;
    return parent?.weightAround(key);
  }

  get wasHeld(): boolean {
    return this.#lock !== undefined;
  }

  held(lock: Lock): void {
    this.#lock = lock;
    const isPermit = (key: string): boolean =>
      this.question.permits?.[key] !== undefined &&
      errorOf(() => lock.fencingTokenOf(key)) instanceof LockConfigError;
    const permits = lock.keys.filter(isPermit);
    const others = lock.keys.filter((key) => !permits.includes(key));
    const tokens = Object.fromEntries(others.map((key) => [key, lock.fencingTokenOf(key)]));
    const slots = Object.fromEntries(permits.map((key) => [key, lock.slotOf(key)]));
    const remainingMs = lock.remainingMs();
    this.note('held', { tokens, ...(permits.length > 0 && { slots }), remainingMs });
    const asked = [...new Set(this.question.keys)].sort().join();
    const got = [...lock.keys].sort().join();
    if (asked !== got) this.wrong(`asked for ${asked} and got ${got}`);
    this.noteDeadline();
    this.#recorder.open.add(this);
    this.#signal = lock.signal;
    if (this.#signal.aborted) this.#lost();
    else this.#signal.addEventListener('abort', this.#lost, { once: true });
  }

  /** Also called when the hold is lost: what the listener of the hold's signal sees. */
  whenLost(listener: () => void): void {
    this.#onLost = listener;
  }

  noteDeadline(): void {
    const remainingMs = this.#lock?.remainingMs() ?? 0;
    const until = monotonicMs() + remainingMs;
    if (remainingMs <= 0 || until < this.#validUntil + 1) return;
    if (this.#signal?.aborted === true) {
      this.wrong(`holds its keys for ${remainingMs} ms although it was told of their loss`);
    }
    this.#validUntil = until;
    this.note('valid', { until });
  }

  /** Changes what its keys guard, if it believes that it holds them. */
  act(): void {
    const at = monotonicMs(); // it may stand still between its look at the lock and what it writes
    if (this.#lock?.isHeld !== true || this.#signal?.aborted !== false) return;
    this.noteDeadline();
    this.note('acted', {}, at);
  }

  /** Its lock was detached, and somebody else may go on under it. */
  detached(): void {
    this.note('detached', {});
    this.#isDetached = true;
    if (this.#lock?.isHeld === true) this.wrong('holds its keys although they were detached');
  }

  /** The work is over. The release comes after this. */
  ended(): void {
    this.noteDeadline();
    this.#checkEnd();
    this.#recorder.open.delete(this);
    this.note('ended', {});
    this.#signal?.removeEventListener('abort', this.#lost);
  }

  released(answer: CallEvents['released']['answer']): void {
    this.note('released', { answer });
    if (this.#lock?.isHeld === true) this.wrong('holds its keys although they were released');
  }

  refused(error: unknown): void {
    const code = error instanceof LockError ? error.code : 'NO_LOCK_ERROR';
    this.note('refused', { code, message: error instanceof Error ? error.message : String(error) });
  }

  busy(): void {
    this.note('refused', { code: 'LOCK_NOT_ACQUIRED', message: 'answered without an error' });
  }

  /** Its own signal aborts now. A call that has got its keys does not mind. */
  aborted(): void {
    if (!this.wasHeld) this.note('aborted', {});
  }

  readonly #lost = (): void => {
    const at = monotonicMs();
    const error: unknown = this.#signal?.reason;
    if (!(error instanceof LockLostError))
      return this.wrong(`was told of a loss with ${String(error)}`);
    this.note('lost', { key: error.key ?? '', reason: error.reason }, at);
    if (this.#lock?.isHeld === true) this.wrong('holds its keys although its signal has aborted');
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
    if (this.#isDetached && error instanceof LockLostError && error.reason === 'detached') return;
    const over = 'does not hold its keys any more and';
    if (!(error instanceof LockLostError)) this.wrong(`${over} assertHeld() gave ${String(error)}`);
    if (!lock.signal.aborted) this.wrong(`${over} its signal did not abort`);
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
