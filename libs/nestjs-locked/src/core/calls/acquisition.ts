import type { DeadlockSearch } from '../deadlocks/deadlock-search.js';
import { byBytes } from '../keys/key-order.js';
import type { EngineParts } from '../lease/engine-parts.js';
import {
  LockAbortedError,
  LockConfigError,
  LockNotAcquiredError,
  LockStoreError,
} from '../lock.errors.js';
import type { KeyTerms } from '../lock-mode.js';
import type { Hold } from '../queue/hold.js';
import type { QueuesByKey } from '../queue/queues-by-key.js';
import { notAcquired } from '../queue/waiting-call.js';
import type { ResolvedLockOptions } from '../resolved.options.js';
import { templateOf } from '../template-of.js';
import type { AmbientHolds } from './ambient-holds.js';
import { CallTime } from './call-time.js';
import type { HolderTraces } from './holder-traces.js';
import { assertMayNest } from './may-nest.js';
import type { NestingOrder } from './nesting-order.js';
import { assertMayShare } from './only-exclusive.js';
import { giveBack, ReentryLevel } from './reentry-level.js';
import { renewWhole } from './renew-whole.js';
import { isSuspect, settleSuspects } from './settle-suspects.js';
import { termsOfEach } from './terms-of-each.js';
import { WaitNotice } from './wait-notice.js';

const ALONE: KeyTerms = { mode: 'exclusive' };

/** The longest wait that could be one half of a deadlock. */
const OUT_OF_ORDER_WAIT_MS = 10_000;

/** The dependencies of every call of an engine. */
export interface CallParts {
  /** The name of the service, if there are several. */
  readonly service: string | undefined;
  readonly deadlocks: DeadlockSearch;
  readonly traces: HolderTraces;
  readonly nestings: NestingOrder;
  readonly parts: EngineParts;
  readonly queues: QueuesByKey;
  readonly ambient: AmbientHolds;
}

/**
 * Gets one call all the keys that it requests, or none: joins those that its async context already holds, and takes the
 * others.
 *
 * Several keys are first requested with one command, which has no effect if one of them is taken; a single try ends
 * there. A call that waits takes the keys one after the other, in an order that is the same everywhere, so that two
 * such calls cannot wait for each other. When its wait is over, the keys still missing are requested with one command.
 * A lease may end while the call waits for a later key, so all holds are checked before the work starts, and lost ones
 * are taken again.
 */
export class Acquisition {
  readonly #calls: CallParts;
  readonly #parts: EngineParts;
  readonly #queues: QueuesByKey;
  readonly #ambient: AmbientHolds;
  readonly #nestings: NestingOrder;
  readonly #deadlocks: DeadlockSearch;
  readonly #options: ResolvedLockOptions;
  readonly #keys: readonly string[];
  /** How the call wants each key; undefined if it wants all of them alone. */
  #terms: ReadonlyMap<string, KeyTerms> | undefined;
  readonly #time: CallTime;
  /** The levels acquired so far: one for each of the first keys, in order. */
  #levels: ReentryLevel[] = [];

  /** @param keys in the order of `inOrder` */
  constructor(calls: CallParts, keys: readonly string[], options: ResolvedLockOptions) {
    const { parts, queues, ambient, nestings, deadlocks } = calls;
    this.#calls = calls;
    this.#parts = parts;
    this.#queues = queues;
    this.#ambient = ambient;
    this.#nestings = nestings;
    this.#deadlocks = deadlocks;
    this.#options = options;
    this.#keys = keys;
    this.#time = new CallTime(parts.clock, options.waitMs);
  }

  /** @returns one re-entry level for each key, in order; all of them are held, and their holds have begun */
  async take(): Promise<readonly ReentryLevel[]> {
    if (this.#options.signal?.aborted === true) {
      throw this.#aborted(
        'was not requested: the signal of the call has aborted before; pass a new one to each call',
        this.#firstKey,
      );
    }
    if (this.#options.mode !== 'exclusive') {
      assertMayShare(this.#parts.store, this.#options, this.#firstKey);
      this.#terms = termsOfEach(this.#keys, this.#options);
    }
    this.#assertCanBeKept();
    if (this.#options.waitMs > 0) this.#noteNestings();
    try {
      let isDone = false;
      if (this.#isSeveral && this.#terms === undefined) {
        isDone = await this.#takeAtOnce();
      } else if (this.#parentOf(this.#firstKey) === undefined) {
        this.#levels.push(new ReentryLevel(await this.#enter(this.#firstKey)));
        isDone = !this.#isSeveral && !this.#levels.some(isSuspect) && this.#firstLost === -1;
      }
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
   * If all of several keys are free, one round trip takes them. A single try ends here; a call that may wait leaves the
   * holds it has joined, because held keys must always come before the key waited for.
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

  /** Joins the keys that this context holds, and takes the others, all or none, without waiting for a holder. */
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
   * Takes the missing keys in order, until all of them are held. If a hold was lost during the wait for a later key, it
   * and all later holds are released, and the loop continues from its key. After the end of the wait, losing an own
   * hold ends the call; losing a hold joined by a branch still allows a single try for an own one.
   */
  async #takeOneByOne(): Promise<void> {
    for (;;) {
      while (this.#levels.length < this.#keys.length) {
        const missing = this.#keys.slice(this.#levels.length);
        const [key] = missing as [string];
        const isTogether = missing.length > 1 && this.#terms === undefined;
        if (isTogether && this.#time.leftMs === 0) {
          await this.#takeTogether(missing); // awaits one more answer instead of one for each key
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
      this.#parts.scheduler.catchUp(); // its lease may not have noticed the loss yet, and would block ours
      this.#giveBack(lost); // with the later ones, which must not be held while waiting for it
    }
  }

  #enter(key: string): Promise<Hold> {
    const around = this.#ambient.holds();
    const later = laterThan(key, around);
    const waitMs = this.#cappedWaitMs(key, later);
    this.#assertNotClosing(key);
    this.#time.asksAgain();
    const terms = this.#terms?.get(key) ?? ALONE;
    const isAsGiven = waitMs === this.#options.waitMs && this.#terms === undefined;
    const options = isAsGiven ? this.#options : { ...this.#options, waitMs, ...terms };
    // Who waits for a permit waits for any of several holders, which proves no ring.
    const mayCloseRing = terms.mode !== 'permit';
    const watched = mayCloseRing
      ? this.#deadlocks.watch(key, options, this.#withOwn(around))
      : undefined;
    const listener = waitMs === 0 ? undefined : WaitNotice.of(this.#calls, key, options);
    const limits = this.#time;
    const isOneOfSeveral = this.#isSeveral;
    const call = { key, options, isOneOfSeveral, limits, watched, listener };
    const entered = this.#queues.enter(call);
    if (listener !== undefined) entered.then(listener.ended, listener.ended);
    const isOwn = !this.#options.reentrant && this.#ambient.levelOf(key) !== undefined;
    if (!isOwn && (later === undefined || waitMs === 0)) return entered;
    return entered.catch((error: unknown) => {
      throw isOwn ? heldByItself(error) : perhapsDeadlock(error, later, waitMs);
    });
  }

  /**
   * Joins a hold when no other branch is inside. A hold lost by then is taken again, like any other. It may also have
   * ended, because nothing waits for this call: another process may have the key, and there is nothing to join.
   * @param waitMs how long to wait for other branches of the call that holds the key
   * @returns undefined if the hold has ended
   */
  async #join(parent: ReentryLevel, waitMs: number): Promise<ReentryLevel | undefined> {
    const { key } = parent.hold;
    if (parent.hold.isShared) return new ReentryLevel(parent.hold, parent);
    // Keys held before the branches forked cannot cause a deadlock between them.
    const later = waitMs === 0 ? undefined : laterThan(key, this.#ambient.heldSince(parent));
    const cappedMs = waitMs === 0 ? 0 : this.#cappedWaitMs(key, later);
    if (cappedMs > 0 && parent.mutex.isTaken)
      WaitNotice.of(this.#calls, key, this.#options)?.queued('local');
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
            'another branch of the same call has it; branches take turns: set a longer waitMs, or lock the key once, around all of them',
          ),
          later,
          cappedMs,
        );
      case 'aborted':
        throw this.#aborted('was not acquired: the signal aborted', key);
    }
  }

  // ---- rules of waiting -------------------------------------------------------------------------------------

  /** Keys that it joins are not requested. What is held further out has been noted with the innermost holds. */
  #noteNestings(): void {
    const holds = this.#ambient.innermostHolds();
    if (holds.length === 0) return;
    const { template, label: wantedBy } = this.#options;
    const requested = this.#keys.filter((key) => this.#parentOf(key) === undefined);
    const templates = new Set(requested.map((key) => templateOf(key, template)));
    for (const { template: held, label: heldBy } of holds) {
      for (const wanted of templates) {
        const ring = this.#nestings.note({ held, heldBy, wanted, wantedBy });
        if (ring !== undefined) this.#parts.report({ type: 'opposite-orders', ring });
      }
    }
  }

  /**
   * A non-reentrant call still joins the hold of its transaction: otherwise, it would wait for itself.
   * @throws LockConfigError if it wants more than the call around it has: it would wait for itself, and two for each
   * other
   */
  #parentOf(key: string): ReentryLevel | undefined {
    const level = this.#ambient.levelOf(key);
    if (level === undefined) return undefined;
    const joins = this.#options.reentrant || level.isOfTransaction;
    assertMayNest(level.hold, this.#terms?.get(key) ?? ALONE, joins);
    return joins ? level : undefined;
  }

  /** During shutdown, work that holds a lock may still take another one, so that it can finish. */
  #assertNotClosing(key: string): void {
    if (!this.#queues.isClosed || this.#ambient.holds().length > 0) return;
    throw new LockAbortedError(
      `Lock '${key}' was not requested: the application is shutting down; before it is closed, await the work that it started`,
      key,
    );
  }

  /** @throws LockConfigError if the store keeps no such lease */
  #assertCanBeKept(): void {
    const { store } = this.#parts;
    if (store.refusalOf === undefined) return;
    for (const terms of this.#terms?.values() ?? [ALONE]) {
      const refusal = store.refusalOf(terms, this.#options.leaseMs);
      if (refusal !== undefined) throw refusal;
    }
  }

  /** With the holds that this call has acquired or joined so far. */
  #withOwn(around: readonly Hold[]): readonly Hold[] {
    if (this.#levels.length === 0) return around;
    return [...new Set([...around, ...this.#levels.map(({ hold }) => hold)])];
  }

  /**
   * Limits a wait against the order of keys, which may be one half of a deadlock that ends only when one side gives up.
   * @throws LockConfigError that names the right order if the call's wait is unlimited
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

  /** Begins the holds; the last step before the work. */
  #begin(): void {
    if (this.#options.signal?.aborted === true) {
      throw this.#aborted('was released again: the signal aborted', this.#firstKey);
    }
    const now = this.#parts.clock.now();
    const { waitMs, holdAtLeastMs } = this.#options;
    for (const { hold, isRoot } of this.#levels) {
      if (!isRoot) hold.keptUntil = Math.max(hold.keptUntil, now + holdAtLeastMs);
      else if (this.#isSeveral) hold.begin(now, waitMs); // a single hold began when it was handed out
    }
  }

  /** Releases the levels from this index on. */
  #giveBack(from: number): void {
    giveBack(this.#levels.splice(from));
  }

  #aborted(what: string, key: string): LockAbortedError {
    const cause: unknown = this.#options.signal?.reason;
    return new LockAbortedError(`Lock '${key}' ${what}`, key, { cause });
  }
}

/** A key later in the order than this one, and held. */
function laterThan(key: string, holds: readonly Hold[]): string | undefined {
  return holds.find((hold) => byBytes(hold.key, key) > 0)?.key;
}

function perhapsDeadlock(error: unknown, later: string | undefined, waitMs: number): unknown {
  if (later === undefined) return error;
  const isCapped = waitMs === OUT_OF_ORDER_WAIT_MS;
  const limit = isCapped ? `, because it waited for ${waitMs} ms at most, whatever waitMs is` : '';
  return withAdvice(
    error,
    `possible deadlock: this call holds '${later}', which others may hold while they wait for it in the other order; take both in one call${limit}`,
  );
}

function heldByItself(error: unknown): unknown {
  return withAdvice(
    error,
    'this call may hold it itself: leave out reentrant: false, so that it joins',
  );
}

/** Adds to the message of a busy lock; any other error stays as it is. */
function withAdvice(error: unknown, advice: string): unknown {
  if (!(error instanceof LockNotAcquiredError)) return error;
  const { message, key, waitedMs } = error;
  return new LockNotAcquiredError(`${message}; ${advice}`, key as string, waitedMs);
}
