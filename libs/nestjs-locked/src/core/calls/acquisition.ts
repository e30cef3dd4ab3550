import type { EngineParts } from '../lease/engine-parts.js';
import type { AmbientHolds } from './ambient-holds.js';
import { Section } from './section.js';
import { byBytes } from '../keys/key-order.js';
import {
  LockAbortedError,
  LockConfigError,
  LockNotAcquiredError,
  LockStoreError,
} from '../lock.errors.js';
import type { ResolvedLockOptions } from '../lock.options.js';
import type { QueuesByKey } from '../lease/queues-by-key.js';

/** A wait that could be one half of a deadlock is not longer than this. */
const OUT_OF_ORDER_WAIT_MS = 10_000;

/** A renewal that the store has not answered is tried again after this pause. */
const CONFIRM_AGAIN_MS = 100;

/** What every call of an engine is made with. */
export interface CallParts {
  readonly parts: EngineParts;
  readonly queues: QueuesByKey;
  readonly ambient: AmbientHolds;
}

/**
 * Everything one call asks for: checks and sorts the keys, joins those that its async context holds already, takes
 * the others, all or none.
 *
 * Several keys are first asked for with one command, which disturbs nobody if one of them is taken; a single try
 * ends there. Who waits takes them one after the other, in one order everywhere, so that callers with several keys
 * cannot wait for each other. A lease may end while a later key is waited for: right before the work starts all of
 * them are looked at, and what was lost is taken again.
 */
export class Acquisition {
  readonly #parts: EngineParts;
  readonly #queues: QueuesByKey;
  readonly #ambient: AmbientHolds;
  readonly #options: ResolvedLockOptions;
  readonly #keys: readonly string[];
  readonly #until: number;
  /** For the first of the keys, in order. */
  #sections: Section[] = [];

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
    this.#until = parts.clock.now() + options.waitMs;
  }

  /** @returns one section for each key, in order; all of them are held, and their holds have begun */
  async take(): Promise<readonly Section[]> {
    if (this.#options.signal?.aborted === true) {
      throw this.#aborted('was not asked for: the signal is already aborted', this.#firstKey);
    }
    try {
      const isDone = this.#isSeveral && (await this.#takeAtOnce());
      if (!isDone) await this.#takeInTurn();
      this.#begin();
    } catch (error) {
      this.#giveBack(0);
      throw error;
    }
    return this.#sections;
  }

  get #firstKey(): string {
    return this.#keys[0] as string;
  }

  get #isSeveral(): boolean {
    return this.#keys.length > 1;
  }

  // ---- all at once ------------------------------------------------------------------------------------------

  /** When nobody has any of several keys, one round trip gets them all. A single try ends with it. */
  async #takeAtOnce(): Promise<boolean> {
    try {
      const others: string[] = [];
      for (const key of this.#keys) {
        const parent = this.#parentOf(key);
        const joined = parent === undefined ? undefined : await this.#join(parent, 0);
        if (joined === undefined) others.push(key);
        else this.#sections.push(joined);
      }
      for (const key of others) this.#assertServed(key);
      if (others.length > 0) {
        const holds = await this.#queues.takeTogether(others, this.#options);
        this.#sections.push(...holds.map((hold) => new Section(hold)));
      }
    } catch (error) {
      const mayWait = error instanceof LockNotAcquiredError || error instanceof LockStoreError;
      if (this.#options.waitMs === 0 || !mayWait) throw error;
      this.#giveBack(0);
      return false;
    }
    this.#sections.sort((a, b) => byBytes(a.hold.key, b.hold.key));
    return this.#firstLost === -1;
  }

  // ---- one after the other ----------------------------------------------------------------------------------

  async #takeInTurn(): Promise<void> {
    for (;;) {
      while (this.#sections.length < this.#keys.length) {
        const key = this.#keys[this.#sections.length] as string;
        const parent = this.#parentOf(key);
        const joined =
          parent === undefined ? undefined : await this.#join(parent, this.#remainingWaitMs());
        this.#sections.push(joined ?? (await this.#acquire(key)));
      }
      if (this.#isSeveral && !this.#options.renew) await this.#renewWhole();
      const lost = this.#firstLost;
      if (lost === -1) return;
      if (this.#remainingWaitMs() === 0) this.#sections[lost]?.hold.assertHeld();
      this.#giveBack(lost); // those behind it as well: it must not be waited for while they are held
    }
  }

  /** Fixed leases have been renewed while the others were waited for; their time starts with the work. */
  async #renewWhole(): Promise<void> {
    const own = this.#sections.filter(({ isRoot }) => isRoot);
    for (;;) {
      const causes = await Promise.all(own.map(({ hold }) => hold.renewWhole()));
      const cause = causes.find((failed) => failed !== undefined);
      if (cause === undefined || this.#firstLost !== -1) return;
      if (this.#remainingWaitMs() === 0) throw cause;
      await new Promise<void>((resolve) => void this.#parts.clock.after(CONFIRM_AGAIN_MS, resolve));
    }
  }

  async #acquire(key: string): Promise<Section> {
    const later = this.#laterKeyHeld(key);
    const waitMs = this.#cappedWaitMs(key, later);
    try {
      this.#assertServed(key);
      const hold = await this.#queues.enter(key, { ...this.#options, waitMs }, this.#isSeveral);
      return new Section(hold);
    } catch (error) {
      throw perhapsDeadlock(error, later);
    }
  }

  /**
   * The hold may have been lost when our turn comes: then it is asked for again, as with any other. It may also have
   * ended, because nobody has waited for this call: then somebody else may have the key, and there is nothing to join.
   * @param waitMs for our turn among the branches of the call that holds the key
   * @returns undefined if it has ended
   */
  async #join(parent: Section, waitMs: number): Promise<Section | undefined> {
    const { key } = parent.hold;
    const later = waitMs === 0 ? undefined : this.#laterKeyHeld(key, parent);
    const cappedMs = waitMs === 0 ? 0 : this.#cappedWaitMs(key, later);
    const outcome = await parent.turns.enter(this.#parts.clock, cappedMs, this.#options.signal);
    switch (outcome) {
      case 'entered':
        if (parent.hold.users > 0) return new Section(parent.hold, parent);
        parent.turns.leave();
        return undefined;
      case 'busy':
        throw perhapsDeadlock(
          new LockNotAcquiredError(
            `Lock '${key}' was not acquired within ${this.#options.waitMs} ms: another branch of this same call has it; branches of one call take turns, and must not wait for each other inside`,
            key,
            Math.round(cappedMs),
          ),
          later,
        );
      case 'aborted':
        throw this.#aborted('was not waited for any longer: the signal aborted', key);
    }
  }

  // ---- rules of waiting -------------------------------------------------------------------------------------

  #parentOf(key: string): Section | undefined {
    return this.#options.reentrant ? this.#ambient.sectionOf(key) : undefined;
  }

  /** While the application closes, work that holds a lock may still take another one to be able to finish. */
  #assertServed(key: string): void {
    if (!this.#queues.isClosed || this.#ambient.heldKeys().length > 0) return;
    throw new LockAbortedError(
      `Lock '${key}' was not asked for: the application is shutting down`,
      key,
    );
  }

  /**
   * A key that this context holds, or its transaction keeps, and that others would take after this one.
   * @param parent the hold whose branches take turns: what was held when they parted is in nobody's way
   */
  #laterKeyHeld(key: string, parent?: Section): string | undefined {
    const held = parent === undefined ? this.#ambient.heldKeys() : this.#ambient.heldSince(parent);
    return held.find((other) => byBytes(other, key) > 0);
  }

  #cappedWaitMs(key: string, later: string | undefined): number {
    const waitMs = this.#remainingWaitMs();
    if (later === undefined) return waitMs;
    if (waitMs < Infinity) return Math.min(waitMs, OUT_OF_ORDER_WAIT_MS);
    throw new LockConfigError(
      `Cannot wait for lock '${key}' without limit while holding '${later}': calls that take both in the other order would wait for each other for ever; take them in one call, or in the order '${key}', '${later}', or set waitMs`,
      key,
    );
  }

  #remainingWaitMs(): number {
    if (this.#options.waitMs === 0) return 0;
    return Math.max(0, Math.ceil(this.#until - this.#parts.clock.now()));
  }

  // ---- the end ----------------------------------------------------------------------------------------------

  get #firstLost(): number {
    return this.#sections.findIndex(({ hold }) => !hold.isHeld);
  }

  /** Nothing but the work comes after this. */
  #begin(): void {
    if (this.#options.signal?.aborted === true) {
      throw this.#aborted('was given back: the signal aborted', this.#firstKey);
    }
    if (!this.#isSeveral) return; // its hold began when it was handed out
    const now = this.#parts.clock.now();
    for (const { hold, isRoot } of this.#sections) if (isRoot) hold.begin(now);
  }

  /** Nobody waits for that: it is repeated until it is done, and reported. */
  #giveBack(from: number): void {
    for (const section of this.#sections.splice(from).reverse()) section.close().catch(() => {});
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
