import type { EngineParts } from '../lease/engine-parts.js';
import type { Lock } from '../lock.js';
import type { Hold } from '../queue/hold.js';
import { atNextTurn } from '../runtime/arrived-messages.js';
import { inNeutralContext } from '../runtime/neutral-context.js';
import { startedHere } from '../started-here.js';
import { atMost } from '../time/at-most.js';
import type { AmbientHolds } from './ambient-holds.js';
import { HeldLock } from './held-lock.js';
import { HoldTrace } from './hold-trace.js';
import type { TransactionalLocks } from './open-transaction.js';
import type { ReentryLevel } from './reentry-level.js';
import { currentTransaction, seesTransactions, workEnded } from './transaction-registry.js';
import { assertWritten, unwrittenIsKnown } from './unwritten-work.js';

/**
 * The locks that were handed out to calls, or that transactions keep for them, and are not released yet. Runs the work
 * under them.
 */
export class HandedOutLocks {
  readonly #parts: EngineParts;
  readonly #ambient: AmbientHolds;
  readonly #service: TransactionalLocks;
  readonly #keyPrefix: string | undefined;
  /** The number of such locks. */
  #locks = 0;
  #onIdle: () => void = () => {};

  /**
   * @param service the lock service as transactions see it
   * @param keyPrefix of the service; undefined for the default
   */
  constructor(
    parts: EngineParts,
    ambient: AmbientHolds,
    service: TransactionalLocks,
    keyPrefix: string | undefined,
  ) {
    this.#keyPrefix = keyPrefix;
    this.#parts = parts;
    this.#ambient = ambient;
    this.#service = service;
  }

  /** @param levels one re-entry level for each key of a call, all of them held */
  handOut(levels: readonly ReentryLevel[]): HeldLock {
    const trace = this.#traceOf(levels);
    const lock = this.#newLock(levels, trace);
    trace?.began();
    return lock;
  }

  #traceOf(levels: readonly ReentryLevel[]): HoldTrace | undefined {
    return HoldTrace.of(this.#parts.clock, this.#service.name, levels);
  }

  #newLock(levels: readonly ReentryLevel[], trace: HoldTrace | undefined): HeldLock {
    this.#locks++;
    const { loopTurn } = this.#parts;
    const onReleased =
      trace === undefined
        ? this.#onReleased
        : (wasHeld?: boolean) => {
            this.#onReleased();
            trace.ended(wasHeld);
          };
    return new HeldLock(
      levels,
      this.#ambient,
      loopTurn,
      onReleased,
      this.#runInTransaction,
      this.#keyPrefix,
    );
  }

  readonly #onReleased = (): void => {
    this.#locks--;
    if (this.#locks === 0) this.#onIdle();
  };

  /** Counts a key that a transaction keeps for its calls. @returns a function to call once it is released */
  keep(): () => void {
    this.#locks++;
    return this.#onReleased;
  }

  /** Runs the work with these locks as the current ones, then releases them. */
  async run<T>(levels: readonly ReentryLevel[], work: (lock: Lock) => T | Promise<T>): Promise<T> {
    const trace = this.#traceOf(levels);
    const lock = this.#newLock(levels, trace);
    // The result or error of the work takes precedence over the release: `HeldLock.settle`, unlike `release`, never
    // throws.
    const own = levels.filter(({ isRoot }) => isRoot).map(({ hold }) => hold);
    const transaction = currentTransaction();
    const here = (): T | Promise<T> => lock.runHere(() => startedHere(work(lock)));
    const inside = trace === undefined ? here : () => trace.run(here);
    try {
      let result: T;
      try {
        result = await (transaction === undefined
          ? inside()
          : transaction.during(lock.keys, inside));
      } finally {
        if (transaction === undefined && seesTransactions()) workEnded(this.#service, own);
      }
      assertWritten(own);
      return result;
    } catch (error) {
      unwrittenIsKnown(own);
      throw error;
    } finally {
      const left = this.#leave(lock);
      if (left !== undefined) await left;
      const pause = this.#parts.loopTurn.pause();
      if (pause !== undefined) await pause;
    }
  }

  readonly #runInTransaction = async <T>(
    holds: readonly Hold[],
    work: () => T | Promise<T>,
  ): Promise<T> => {
    const transaction = currentTransaction();
    if (transaction !== undefined) await transaction.adopt(this.#service, holds, 'lock.run');
    const keys = holds.map(({ key }) => key);
    try {
      const result = await (transaction === undefined ? work() : transaction.during(keys, work));
      assertWritten(holds);
      return result;
    } catch (error) {
      unwrittenIsKnown(holds);
      throw error;
    }
  };

  /** @returns what the call awaits before it ends, if anything */
  #leave(lock: HeldLock): Promise<void> | undefined {
    const { options, outages } = this.#parts;
    const settled = lock.settle();
    if (lock.isOutlived) this.#reportIfOutlived(lock);
    else if (options.awaitRelease) return outages.whileReachable(lock.keys, settled);
    return undefined;
  }

  /**
   * Reports an outlived lock, unless the inner call ends in the same turn of the event loop, as a nested Observable
   * may.
   */
  #reportIfOutlived(lock: HeldLock): void {
    const tell = (): void => {
      const { key, label, template, keptBy: by } = lock;
      if (by !== undefined) this.#parts.report({ type: 'outlived', key, label, template, by });
    };
    inNeutralContext(() => void atNextTurn(tell));
  }

  /** Waits until no lock is left, for `limitMs` at most. */
  async idle(limitMs: number): Promise<void> {
    if (this.#locks === 0) return;
    const isIdle = new Promise<void>((resolve) => this.whenIdle(resolve));
    await atMost(this.#parts.clock, limitMs, isIdle);
  }

  /** Calls `then` once no lock is left, now or later; a second call takes the place of the first. */
  whenIdle(then: () => void): void {
    if (this.#locks === 0) then();
    else this.#onIdle = then;
  }
}
