import { byBytes } from '../keys/key-order.js';
import type { EngineParts } from '../lease/engine-parts.js';
import {
  LockAbortedError,
  LockConfigError,
  LockNotAcquiredError,
  LockStoreError,
} from '../lock.errors.js';
import type { Hold } from '../queue/hold.js';
import type { QueuesByKey } from '../queue/queues-by-key.js';
import { notAcquired } from '../queue/waiting-call.js';
import type { ResolvedLockOptions } from '../resolved.options.js';
import type { AmbientHolds } from './ambient-holds.js';
import { CallTime } from './call-time.js';
import { ReentryLevel } from './reentry-level.js';
import { renewWhole } from './renew-whole.js';
import { isSuspect, settleSuspects } from './settle-suspects.js';

/** A wait that could be one half of a deadlock lasts no longer than this. */
const OUT_OF_ORDER_WAIT_MS = 10_000;

/** What every call of an engine needs. */
export interface CallParts {
  readonly parts: EngineParts;
  readonly queues: QueuesByKey;
  readonly ambient: AmbientHolds;
}

/**
 * Gets one call all the keys that it asks for, or none: it joins those that its async context holds already, and takes
 * the others.
 *
 * Several keys are first asked for with one command, which disturbs nobody if one of them is taken; a single try ends
 * there. A call that waits takes them one after the other. The order is the same everywhere, so that two calls with
 * several keys cannot wait for each other. What is missing when its wait is over is asked for with one command. A lease
 * may end while the call waits for a later key, so all holds are checked before the work starts, and what was lost is
 * taken again.
 */
export class Acquisition {
  readonly #parts: EngineParts;
  readonly #queues: QueuesByKey;
  readonly #ambient: AmbientHolds;
  readonly #options: ResolvedLockOptions;
  readonly #keys: readonly string[];
  readonly #time: CallTime;
  /** What the call has so far: one re-entry level for each of the first keys, in order. */
  #levels: ReentryLevel[] = [];

  /** @param keys as `inOrder` gives them */
  constructor(
    { parts, queues, ambient }: CallParts,
    keys: readonly string[],
    options: ResolvedLockOptions,
  ) {
    this.#parts = parts;
    this.#queues = queues;
    this.#ambient = ambient;
    this.#options = options;
    this.#keys = keys;
    this.#time = new CallTime(parts.clock, options.waitMs);
  }

  /** @returns one re-entry level for each key, in order; all of them are held, and their holds have begun */
  async take(): Promise<readonly ReentryLevel[]> {
    if (this.#options.signal?.aborted === true) {
      throw this.#aborted('was not asked for: the signal is already aborted', this.#firstKey);
    }
    try {
      const isDone = this.#isSeveral && (await this.#takeAtOnce());
      if (!isDone) await this.#takeOneByOne();
      this.#begin();
    } catch (error) {
      this.#giveBack(0);
      throw error;
    }
    return this.#levels;
  }

  get #firstKey(): string {
    return this.#keys[0] as string;
  }

  get #isSeveral(): boolean {
    return this.#keys.length > 1;
  }

  // ---- all at once ------------------------------------------------------------------------------------------

  /**
   * If nobody has any of several keys, one round trip gets them all. A single try ends with it; a call that may wait
   * releases what it has joined, because what it holds must always come before what it waits for.
   * @returns false if the keys must be taken one after the other
   */
  async #takeAtOnce(): Promise<boolean> {
    try {
      await this.#takeTogether(this.#keys);
      if (this.#levels.some(isSuspect)) await this.#settleSuspects();
    } catch (error) {
      const mayWait = error instanceof LockNotAcquiredError || error instanceof LockStoreError;
      if (this.#time.leftMs === 0 || !mayWait) throw error;
      this.#giveBack(0);
      return false;
    }
    return this.#firstLost === -1;
  }

  /** Joins those of the keys that this context holds, and takes the others, all or none. It waits for nobody. */
  async #takeTogether(keys: readonly string[]): Promise<void> {
    const others: string[] = [];
    for (const key of keys) {
      const parent = this.#parentOf(key);
      const joined = parent === undefined ? undefined : await this.#join(parent, 0);
      if (joined === undefined) others.push(key);
      else this.#levels.push(joined);
    }
    const { leftMs, answerBy } = this.#time;
    const { signal } = this.#options;
    const areAnswered = await this.#queues.awaitAnswers(others, leftMs === 0, answerBy, signal);
    for (const key of others) this.#assertNotClosing(key);
    if (others.length > 0) {
      this.#time.asksAgain();
      const holds = await this.#queues.takeTogether(others, this.#options, this.#time, areAnswered);
      this.#levels.push(...holds.map((hold) => new ReentryLevel(hold)));
    }
    this.#levels.sort((a, b) => byBytes(a.hold.key, b.hold.key));
  }

  // ---- one after the other ----------------------------------------------------------------------------------

  /**
   * Takes the missing keys in order, until all of them are held. If a hold was lost while a later key was waited for,
   * the holds of all later keys are released, and the loop goes on from the lost one. At the end of the wait, the loss
   * of an own hold is the end; one that was only joined, as a branch does, leaves a single try for an own one.
   */
  async #takeOneByOne(): Promise<void> {
    for (;;) {
      while (this.#levels.length < this.#keys.length) {
        const missing = this.#keys.slice(this.#levels.length);
        const [key] = missing as [string];
        if (missing.length > 1 && this.#time.leftMs === 0) {
          await this.#takeTogether(missing); // one more answer is awaited, and not one for each of them
          break;
        }
        const parent = this.#parentOf(key);
        const joined =
          parent === undefined ? undefined : await this.#join(parent, this.#time.leftMs);
        this.#levels.push(joined ?? new ReentryLevel(await this.#enter(key)));
      }
      if (this.#isSeveral && !this.#options.renew) await this.#renewWhole();
      if (this.#levels.some(isSuspect)) await this.#settleSuspects();
      const lost = this.#firstLost;
      if (lost === -1) return;
      const { hold, isRoot } = this.#levels[lost] as ReentryLevel;
      if (isRoot && this.#time.leftMs === 0) hold.assertHeld();
      this.#parts.scheduler.catchUp(); // its lease may not have been told yet, and would be in our way
      this.#giveBack(lost); // and the later ones: it must not be waited for while they are held
    }
  }

  #enter(key: string): Promise<Hold> {
    const later = this.#laterKeyHeld(key);
    const waitMs = this.#cappedWaitMs(key, later);
    this.#assertNotClosing(key);
    this.#time.asksAgain();
    const options = waitMs === this.#options.waitMs ? this.#options : { ...this.#options, waitMs };
    const terms = { key, options, isOneOfSeveral: this.#isSeveral, limits: this.#time };
    const entered = this.#queues.enter(terms);
    if (later === undefined || waitMs === 0) return entered;
    return entered.catch((error: unknown) => {
      throw perhapsDeadlock(error, later);
    });
  }

  /**
   * Joins a hold once no other branch is inside. If the hold is lost by then, it is taken again, like any other. It may
   * also have ended, because nobody waited for this call: another process may have the key now, and there is nothing to
   * join.
   * @param waitMs how long to wait for other branches of the call that holds the key
   * @returns undefined if the hold has ended
   */
  async #join(parent: ReentryLevel, waitMs: number): Promise<ReentryLevel | undefined> {
    const { key } = parent.hold;
    const later = waitMs === 0 ? undefined : this.#laterKeyHeld(key, parent);
    const cappedMs = waitMs === 0 ? 0 : this.#cappedWaitMs(key, later);
    const outcome = await parent.mutex.enter(this.#parts.clock, cappedMs, this.#options.signal);
    switch (outcome) {
      case 'entered':
        if (parent.hold.users > 0) return new ReentryLevel(parent.hold, parent);
        parent.mutex.leave();
        return undefined;
      case 'busy':
        throw perhapsDeadlock(
          notAcquired(
            key,
            this.#time,
            this.#parts.clock.now(),
            'another branch of this same call has it; branches of one call take turns, and must not wait for each other inside',
          ),
          later,
        );
      case 'aborted':
        throw this.#aborted('was not waited for any longer: the signal aborted', key);
    }
  }

  // ---- rules of waiting -------------------------------------------------------------------------------------

  /** A call that wants a lock of its own joins what the transaction around has for it, and would wait for itself. */
  #parentOf(key: string): ReentryLevel | undefined {
    const level = this.#ambient.levelOf(key);
    return this.#options.reentrant || level?.isOfTransaction === true ? level : undefined;
  }

  /** While the application closes, work that holds a lock may still take another one, so that it can finish. */
  #assertNotClosing(key: string): void {
    if (!this.#queues.isClosed || this.#ambient.heldKeys().length > 0) return;
    throw new LockAbortedError(
      `Lock '${key}' was not asked for: the application is shutting down`,
      key,
    );
  }

  /**
   * A key that this context holds or its transaction keeps, although others would take it after this one.
   * @param parent the re-entry level whose branches wait for each other: keys that were held before the branches parted
   * are in nobody's way
   */
  #laterKeyHeld(key: string, parent?: ReentryLevel): string | undefined {
    const held = parent === undefined ? this.#ambient.heldKeys() : this.#ambient.heldSince(parent);
    return held.find((other) => byBytes(other, key) > 0);
  }

  /**
   * A wait against the order of keys may be one half of a deadlock, which ends only when one of the two gives up. So it
   * is limited, and a call that asks for no limit is told which order to keep.
   */
  #cappedWaitMs(key: string, later: string | undefined): number {
    const waitMs = this.#time.leftMs;
    if (later === undefined) return waitMs;
    if (waitMs < Infinity) return Math.min(waitMs, OUT_OF_ORDER_WAIT_MS);
    throw new LockConfigError(
      `Cannot wait for lock '${key}' without limit while holding '${later}': calls that take both in the other order would wait for each other for ever; take them in one call, or in the order '${key}', '${later}', or set waitMs`,
      key,
    );
  }

  // ---- the end ----------------------------------------------------------------------------------------------

  #renewWhole(): Promise<void> {
    return renewWhole(this.#levels, this.#parts.clock, this.#time, this.#options.signal);
  }

  #settleSuspects(): Promise<void> {
    this.#time.asksAgain();
    return settleSuspects(
      this.#levels,
      this.#parts.clock,
      this.#time.answerBy,
      this.#options.signal,
    );
  }

  get #firstLost(): number {
    return this.#levels.findIndex(({ hold }) => hold.isOver);
  }

  /** The last step before the work. */
  #begin(): void {
    if (this.#options.signal?.aborted === true) {
      throw this.#aborted('was released again: the signal aborted', this.#firstKey);
    }
    const now = this.#parts.clock.now();
    const { waitMs, holdAtLeastMs } = this.#options;
    for (const { hold, isRoot } of this.#levels) {
      if (!isRoot) hold.keptUntil = Math.max(hold.keptUntil, now + holdAtLeastMs);
      else if (this.#isSeveral) hold.begin(now, waitMs); // a single one began when it was handed out
    }
  }

  /** Releases what the call has from here on, in reverse. Nobody waits for that: it is repeated, and reported. */
  #giveBack(from: number): void {
    for (const level of this.#levels.splice(from).reverse()) {
      if (level.isRoot) level.hold.neverWorked();
      level.close().catch(() => {});
    }
  }

  #aborted(what: string, key: string): LockAbortedError {
    const cause: unknown = this.#options.signal?.reason;
    return new LockAbortedError(`Lock '${key}' ${what}`, key, { cause });
  }
}

function perhapsDeadlock(error: unknown, later: string | undefined): unknown {
  if (later === undefined || !(error instanceof LockNotAcquiredError)) return error;
  return new LockNotAcquiredError(
    `${error.message}; possible deadlock: this call holds '${later}', which others may hold while they wait for it in the other order; take both in one call`,
    error.key as string,
    error.waitedMs,
  );
}
