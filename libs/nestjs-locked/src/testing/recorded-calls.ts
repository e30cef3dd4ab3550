import { LockError, type LockErrorCode, LockLostError } from '../core/lock.errors.js';
import type { Lock } from '../core/lock.js';
import type { LockKeys } from '../core/lock.options.js';
import { systemClock } from '../core/time/clock.js';
import { settled } from './settled.js';

/**
 * The outcome so far of a call that requested a lock.
 *
 * - `waiting`: it has no result yet
 * - `held`: it has the lock now
 * - `released`: it held the lock until its end
 * - `detached`: it held the lock until it handed it over
 * - `lost`: it lost the lock before its end
 * - `busy`: somebody else held the lock, whether the call threw, skipped, or returned a substitute or null
 * - `aborted`: the wait was ended by the call's signal, or by the shutdown of the application
 * - `store-failed`: the store did not answer
 * - `refused`: a key or an option is invalid, there was nothing to adopt, or the lock was requested inside an open
 *   transaction; with `insideTransaction: 'restart'`, the next call has the lock
 */
export type LockOutcome =
  | 'waiting'
  | 'held'
  | 'released'
  | 'detached'
  | 'lost'
  | 'busy'
  | 'aborted'
  | 'store-failed'
  | 'refused';

/** One call that requested a lock: a plain object, to be compared as a whole. */
export interface LockCall {
  /**
   * The caller: `StockService.take`, the handler under a `LockInterceptor`, `withLock`, `acquire`, `tryAcquire`,
   * `adopt` or `lead`.
   */
  readonly by: string;
  /** The requested keys, in the order of the call. */
  readonly keys: readonly string[];
  /** The outcome so far. */
  readonly outcome: LockOutcome;
  /** The name of the lock service, if it has one. */
  readonly service?: string;
}

const FAILURES: Partial<Record<LockErrorCode, LockOutcome>> = {
  LOCK_NOT_ACQUIRED: 'busy',
  LOCK_ABORTED: 'aborted',
  LOCK_STORE_FAILED: 'store-failed',
};

/** How long a test waits for a call: less than the time limit of a test in Jest and Vitest. */
const PATIENCE_MS = 4_000;

/** A call in progress or ended. */
export class RecordedCall {
  readonly #by: string;
  readonly #keys: readonly string[];
  readonly #service: string | undefined;
  readonly #answered: () => void;
  #lock: Lock | undefined;
  #unlocked: LockOutcome | undefined;
  #isBusy = false;

  constructor(by: string, keys: LockKeys, service: string | undefined, answered: () => void) {
    this.#by = by;
    this.#keys = [keys].flat();
    this.#service = service;
    this.#answered = answered;
  }

  /** Called before `onBusy`, which may throw anything. */
  busy(): void {
    this.#isBusy = true;
  }

  locked(lock: Lock): void {
    this.#lock = lock;
    this.#answered();
  }

  /** Follows the call to its end; a call that returned a lock lasts until the release. */
  async until<T>(result: Promise<T>): Promise<T> {
    try {
      const value = await result;
      this.#unlocked = 'busy'; // unless it has locked: it has skipped its work or returned a substitute
      return value;
    } catch (error) {
      const failure = error instanceof LockError ? FAILURES[error.code] : undefined;
      this.#unlocked = this.#isBusy ? 'busy' : (failure ?? 'refused');
      throw error;
    } finally {
      this.#answered();
    }
  }

  is(outcome: LockOutcome, key: string, service: string | undefined): boolean {
    return this.#service === service && this.#keys.includes(key) && this.#outcome === outcome;
  }

  /** Whether it waits for its lock or holds it. */
  get goesOn(): boolean {
    return ['waiting', 'held'].includes(this.#outcome);
  }

  get #outcome(): LockOutcome {
    return this.#lock === undefined ? (this.#unlocked ?? 'waiting') : outcomeOf(this.#lock);
  }

  snapshot(): LockCall {
    const call = { by: this.#by, keys: [...this.#keys], outcome: this.#outcome };
    return this.#service === undefined ? call : { ...call, service: this.#service };
  }
}

function outcomeOf(lock: Lock): LockOutcome {
  try {
    lock.assertHeld();
    return 'held';
  } catch (error) {
    const reason = error instanceof LockLostError ? error.reason : undefined;
    return reason === 'released' || reason === 'detached' ? reason : 'lost';
  }
}

/** The calls of all lock services of a test, in the order of their requests. */
export class RecordedCalls {
  #calls: RecordedCall[] = [];
  #forgotten: readonly RecordedCall[] = [];
  /** Whether ended calls are kept. */
  keeps = true;
  readonly #waiting = new Set<RecordedCall>();
  readonly #onWaiting: (isAnyWaiting: boolean) => void;
  readonly #watchers = new Set<() => void>();

  /** @param onWaiting called whenever a call begins or stops waiting, with whether any call waits now */
  constructor(onWaiting: (isAnyWaiting: boolean) => void) {
    this.#onWaiting = onWaiting;
  }

  asked(by: string, keys: LockKeys, service: string | undefined): RecordedCall {
    const answered = (): void => {
      this.#waiting.delete(call);
      this.#changed();
    };
    const call = new RecordedCall(by, keys, service, answered);
    if (this.keeps) this.#calls.push(call);
    // A candidate waits for as long as the application lives.
    if (by !== 'lead') this.#waiting.add(call);
    this.#changed();
    return call;
  }

  /** Removes the calls from the record. Those in progress can still be waited for. */
  forget(): void {
    this.#forgotten = [...this.#forgotten, ...this.#calls].filter((call) => call.goesOn);
    this.#calls = [];
  }

  snapshot(): LockCall[] {
    return this.#calls.map((call) => call.snapshot());
  }

  find(outcome: LockOutcome, key: string, service: string | undefined): LockCall | undefined {
    return [...this.#forgotten, ...this.#calls]
      .find((call) => call.is(outcome, key, service))
      ?.snapshot();
  }

  /** @throws Error if it takes too long, with the calls recorded instead */
  async until(outcome: LockOutcome, key: string, service: string | undefined): Promise<void> {
    const end = systemClock.now() + PATIENCE_MS;
    for (;;) {
      const change = this.#nextChange(end);
      await settled(); // the answer to a recent call may be in flight
      if (this.find(outcome, key, service) !== undefined) return change.forget();
      if (systemClock.now() >= end) throw new Error(this.#nobody(outcome, key));
      await change.promise;
    }
  }

  #nextChange(end: number): { readonly promise: Promise<void>; readonly forget: () => void } {
    let changed!: () => void;
    const promise = new Promise<void>((resolve) => (changed = resolve));
    const cancel = systemClock.after(Math.max(0, end - systemClock.now()), changed);
    this.#watchers.add(changed);
    const forget = (): void => {
      cancel();
      this.#watchers.delete(changed);
    };
    void promise.then(forget);
    return { promise, forget };
  }

  #changed(): void {
    this.#onWaiting(this.#waiting.size > 0);
    for (const changed of [...this.#watchers]) changed();
  }

  #nobody(outcome: LockOutcome, key: string): string {
    const calls = this.snapshot().map((it) => `${it.by} (${it.keys.join(', ')}): ${it.outcome}`);
    const seen =
      calls.length === 0
        ? 'no call has requested a lock; start the call first, and do not await it'
        : calls.join('; ');
    return `No call for '${key}' was ${outcome} within ${PATIENCE_MS / 1_000} s: ${seen}`;
  }
}
