import { AsyncLocalStorage } from 'node:async_hooks';
import type { DeposedReason, Leadership, LeaderWork } from '../leadership.js';
import type { EngineParts } from '../lease/engine-parts.js';
import { LockAbortedError, LockError, type LockLostError } from '../lock.errors.js';
import type { Lock } from '../lock.js';
import type { WithLockOptions } from '../lock.options.js';
import type { LockEvent, OfLock } from '../lock-events.js';
import { withSignal } from '../resolved.options.js';
import { watchAbort } from '../runtime/abort-watch.js';
import { inNeutralContext } from '../runtime/neutral-context.js';
import { RetryPause } from '../store/retry-pause.js';

/** How long work may go on after its signal has aborted before that is reported. */
const OVERDUE_MS = 10_000;

/** The pause after the first failure of the work, and the longest one. */
const PAUSE_MS = 1_000;
const LONGEST_PAUSE_MS = 60_000;

/** What is told about a leader, without its lock. */
type LeaderEvent = WithoutLock<
  Extract<
    LockEvent,
    { type: 'elected' | 'deposed' | 'leader-failed' | 'leader-overdue' | 'campaign-failed' }
  >
>;
type WithoutLock<Event> = Event extends OfLock ? Omit<Event, keyof OfLock> : never;

/** What the campaigns of an engine need of it. */
export interface CampaignParts {
  readonly parts: EngineParts;
  /** `LockEngine.withLock`. */
  withLock(
    key: string,
    options: WithLockOptions,
    work: (lock: Lock) => Promise<void>,
  ): Promise<void>;
  /** The lock of this key under which the calling code runs. */
  current(key: string): Lock | undefined;
}

/**
 * Waits for the lock of a leader, runs the work under it, and waits again when the lock was lost or the work has
 * failed. It ends when the work returns while it holds the lock, or is told to.
 *
 * One turn after the other: the lock is requested again only when the work of the last turn has ended, so the work
 * never runs twice at a time. All of it runs outside the async context of whoever began it.
 */
export class Campaign implements Leadership {
  readonly key: string;
  readonly done: Promise<void>;
  readonly #engine: CampaignParts;
  readonly #options: WithLockOptions;
  readonly #work: LeaderWork;
  /** Aborts when the campaign is to end. */
  readonly #ending = new AbortController();
  readonly #retries = new RetryPause();
  readonly #pauses = new RetryPause(PAUSE_MS, LONGEST_PAUSE_MS);
  /** Why it ends, if it is told to. */
  #endReason: DeposedReason = 'resigned';
  /** The lock of the work that is running. */
  #lock: Lock | undefined;
  /** Runs something in the async context of the work, if it is running. */
  #inContext: <T>(run: () => T) => T = inNeutralContext;
  #endPause: () => void = () => {};
  #forgetOverdue: () => void = () => {};
  /** Whether a failed request was reported since this process led last. */
  #isFailing = false;

  /** @param options checked and complete */
  constructor(engine: CampaignParts, key: string, options: WithLockOptions, work: LeaderWork) {
    this.#engine = engine;
    this.key = key;
    this.#work = work;
    this.#options = withSignal(options, this.#ending.signal);
    this.done = inNeutralContext(() => this.#campaign());
  }

  get isLeader(): boolean {
    return this.#lock?.isHeld ?? false;
  }

  async resign(): Promise<void> {
    // A nested call for the key has joined the same hold.
    const token = this.#engine.current(this.key)?.fencingTokenOf(this.key);
    const isInside = this.#lock !== undefined && this.#lock.fencingToken === token;
    this.end('resigned', `resign() was called for the leader of '${this.key}'`);
    if (!isInside) await this.done;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.resign();
  }

  /** Ends the campaign; the lock is released when the work has ended. */
  end(reason: DeposedReason, message: string): void {
    if (this.#ending.signal.aborted) return;
    this.#endReason = reason;
    this.#inContext(() => this.#ending.abort(new LockAbortedError(message, this.key)));
    this.#endPause();
  }

  get #isEnding(): boolean {
    return this.#ending.signal.aborted;
  }

  async #campaign(): Promise<void> {
    while (!this.#isEnding) await this.#pause(await this.#oneTurn());
  }

  /** @returns how long to wait before the next turn, in milliseconds */
  async #oneTurn(): Promise<number> {
    let pauseMs = 0;
    let hasLed = false;
    try {
      await this.#engine.withLock(this.key, this.#options, async (lock) => {
        hasLed = true;
        pauseMs = await this.#lead(lock);
      });
    } catch (error) {
      // After the work, it says that a transaction under the lock was not written.
      if (hasLed) return this.#failed(error);
      if (this.#isEnding) return 0;
      this.#noteFailure(error as Error);
      return this.#spread(this.#retries.next());
    }
    return pauseMs;
  }

  // ---- leading ----------------------------------------------------------------------------------------------

  /** Runs the work. @returns how long to wait before the next turn, in milliseconds */
  async #lead(lock: Lock): Promise<number> {
    const { signal: lost } = lock;
    const { signal: ending } = this.#ending;
    if (lost.aborted || ending.aborted) return 0;
    this.#retries.reset();
    this.#isFailing = false;
    const { clock } = this.#engine.parts;
    const since = clock.now();
    const turn = new AbortController();
    this.#lock = lock;
    this.#inContext = AsyncLocalStorage.snapshot();
    const unwatch = [
      watchAbort(turn.signal, () => this.#watchOverdue()),
      watchAbort(lost, () => {
        this.#deposed((lost.reason as LockLostError).reason);
        turn.abort(lost.reason);
      }),
      watchAbort(ending, () => turn.abort(ending.reason)),
    ];
    this.#report({ type: 'elected', fencingToken: lock.fencingToken });
    let reason: DeposedReason = 'resigned';
    let pauseMs = 0;
    try {
      await this.#run(lock, turn.signal);
      if (!turn.signal.aborted) this.end('resigned', `The leader of '${this.key}' has returned`);
    } catch (error) {
      if (clock.now() - since > LONGEST_PAUSE_MS) this.#pauses.reset();
      if (!turn.signal.aborted) reason = 'failed';
      if (!isOfAbort(error, turn.signal)) pauseMs = this.#failed(error);
    } finally {
      // For what the work has left behind, such as the other branches of a failed Promise.all.
      turn.abort(new LockAbortedError(`The work of the leader of '${this.key}' ended`, this.key));
      for (const forget of unwatch) forget();
      this.#forgetOverdue();
      this.#lock = undefined;
      this.#inContext = inNeutralContext;
    }
    if (this.#isEnding) reason = this.#endReason;
    if (!lost.aborted) this.#deposed(reason);
    return pauseMs;
  }

  /**
   * Outside the context of the hold, in which a tracer would make everything the leader ever does one trace, but with
   * its lock as the current one.
   */
  #run(lock: Lock, signal: AbortSignal): Promise<void> {
    return inNeutralContext(() => lock.run(() => this.#work(signal, lock)));
  }

  /** Reports work that goes on after its signal has aborted. */
  #watchOverdue(): void {
    const tell = (): void => this.#report({ type: 'leader-overdue', sinceMs: OVERDUE_MS });
    this.#forgetOverdue = this.#after(OVERDUE_MS, tell);
  }

  // ---- what is told -----------------------------------------------------------------------------------------

  #deposed(reason: DeposedReason): void {
    this.#report({ type: 'deposed', reason });
  }

  /** @returns the pause before the next turn, in milliseconds */
  #failed(error: unknown): number {
    const pauseMs = this.#isEnding ? 0 : this.#spread(this.#pauses.next());
    this.#report({ type: 'leader-failed', error, retryInMs: this.#isEnding ? undefined : pauseMs });
    return pauseMs;
  }

  #noteFailure(cause: Error): void {
    if (this.#isFailing) return;
    this.#isFailing = true;
    this.#report({ type: 'campaign-failed', cause });
  }

  #report(event: LeaderEvent): void {
    const { key } = this;
    const label = this.#options.label ?? 'lead';
    const whole = { key, label, template: key, ...event } as LockEvent;
    inNeutralContext(() => this.#engine.parts.report(whole));
  }

  // ---- pauses -----------------------------------------------------------------------------------------------

  /** From half to the whole of it, so that the replicas do not try all at once. */
  #spread(ms: number): number {
    return ms / 2 + this.#engine.parts.jitter(ms / 2);
  }

  #pause(ms: number): Promise<void> | undefined {
    if (ms === 0 || this.#isEnding) return undefined;
    return new Promise((resolve) => {
      const cancel = this.#after(ms, resolve);
      this.#endPause = () => {
        cancel();
        resolve();
      };
    });
  }

  /** A timer that does not keep the process alive. @returns cancels it */
  #after(ms: number, fire: () => void): () => void {
    const cancel = this.#engine.parts.clock.after(ms, fire);
    cancel.mayEnd?.(true);
    return cancel;
  }
}

/**
 * Whether the work has thrown because its signal has aborted, whose reason is an error of a lock. Such errors are told
 * elsewhere.
 */
function isOfAbort(error: unknown, signal: AbortSignal): boolean {
  if (!signal.aborted) return false;
  // A DOMException of another realm is no Error of ours.
  const isAbort = (error as { readonly name?: unknown } | null | undefined)?.name === 'AbortError';
  return isAbort || error instanceof LockError;
}
