import type { LockContext } from './lock-context.js';
import { Section, type LockScopes } from './lock-scope.js';
import { byBytes } from './key-order.js';
import { LockAbortedError, LockConfigError, LockNotAcquiredError } from './lock.errors.js';
import type { ResolvedLockOptions } from './lock.options.js';
import type { LocalQueues } from './local-queues.js';

/** A wait that could be one half of a deadlock is not longer than this. */
const OUT_OF_ORDER_WAIT_MS = 10_000;

/**
 * Everything one call asks for: checks and sorts the keys, joins those that its async context holds already, takes
 * the others, all or none.
 *
 * The keys are taken in one order everywhere, so that callers with several keys cannot wait for each other.
 */
export class Acquisition {
  readonly #context: LockContext;
  readonly #queues: LocalQueues;
  readonly #scopes: LockScopes;
  readonly #options: ResolvedLockOptions;
  readonly #keys: readonly string[];
  readonly #until: number;
  readonly #sections: Section[] = [];

  /** @param keys as `inOrder` gives them */
  constructor(
    context: LockContext,
    queues: LocalQueues,
    scopes: LockScopes,
    keys: readonly string[],
    options: ResolvedLockOptions,
  ) {
    this.#context = context;
    this.#queues = queues;
    this.#scopes = scopes;
    this.#options = options;
    this.#keys = keys;
    this.#until = context.clock.now() + options.waitMs;
  }

  /** @returns one section for each key, in order */
  async take(): Promise<readonly Section[]> {
    const { signal } = this.#options;
    if (signal?.aborted === true) {
      const cause: unknown = signal.reason;
      throw this.#aborted(
        'was not asked for: the signal is already aborted',
        this.#keys[0] as string,
        cause,
      );
    }
    try {
      const together = this.#keys.length > 1 && (await this.#takeTogether());
      if (!together) await this.#takeInTurn();
    } catch (error) {
      await Promise.allSettled(this.#sections.map((section) => section.close()));
      throw error;
    }
    return this.#sections;
  }

  /** When nobody has any of several keys, one round trip gets them all. */
  async #takeTogether(): Promise<boolean> {
    if (this.#keys.some((key) => this.#parentOf(key) !== undefined)) return false;
    this.#assertServed(this.#keys[0] as string);
    const holds = await this.#queues.takeTogether(this.#keys, this.#options);
    if (holds === undefined) return false;
    this.#sections.push(...holds.map((hold) => new Section(hold)));
    return true;
  }

  async #takeInTurn(): Promise<void> {
    for (const key of this.#keys) {
      const parent = this.#parentOf(key);
      this.#sections.push(
        parent === undefined ? await this.#acquire(key) : await this.#join(parent),
      );
    }
  }

  #parentOf(key: string): Section | undefined {
    return this.#options.reentrant ? this.#scopes.sectionOf(key) : undefined;
  }

  async #acquire(key: string): Promise<Section> {
    const later = this.#laterKeyHeld(key);
    let waitMs = this.#remainingWaitMs();
    if (later !== undefined) {
      if (waitMs === Infinity) {
        throw new LockConfigError(
          `Cannot wait for lock '${key}' without limit while holding '${later}': calls that take both in the other order would wait for each other for ever; take them in one call, or in the order '${key}', '${later}', or set waitMs`,
          key,
        );
      }
      waitMs = Math.min(waitMs, OUT_OF_ORDER_WAIT_MS);
    }
    try {
      this.#assertServed(key);
      return new Section(await this.#queues.enter(key, { ...this.#options, waitMs }));
    } catch (error) {
      if (later === undefined || !(error instanceof LockNotAcquiredError)) throw error;
      throw new LockNotAcquiredError(
        `${error.message}; possible deadlock: this call holds '${later}', which others may hold while they wait for it in the other order; take both in one call`,
        key,
        error.waitedMs,
      );
    }
  }

  /** While the application closes, work that holds a lock may still take another one to be able to finish. */
  #assertServed(key: string): void {
    if (!this.#queues.isClosed || this.#scopes.heldKeys().length > 0) return;
    throw new LockAbortedError(
      `Lock '${key}' was not asked for: the application is shutting down`,
      key,
    );
  }

  /** A key held by this context, or taken by this call, that others would take after this one. */
  #laterKeyHeld(key: string): string | undefined {
    return this.#scopes.heldKeys().find((held) => byBytes(held, key) > 0);
  }

  async #join(parent: Section): Promise<Section> {
    const { key } = parent.hold;
    const waitMs = this.#remainingWaitMs();
    const outcome = await parent.turns.enter(this.#context.clock, waitMs, this.#options.signal);
    switch (outcome) {
      case 'entered':
        if (parent.hold.isHeld) return new Section(parent.hold, parent);
        parent.turns.leave();
        return await this.#acquire(key);
      case 'busy':
        throw new LockNotAcquiredError(
          `Lock '${key}' was not acquired within ${this.#options.waitMs} ms: another branch of this same call has it; branches of one call take turns, and must not wait for each other inside`,
          key,
          Math.round(waitMs),
        );
      case 'aborted':
        throw this.#aborted(
          'was not waited for any longer: the signal aborted',
          key,
          this.#options.signal?.reason,
        );
    }
  }

  #remainingWaitMs(): number {
    if (this.#options.waitMs === 0) return 0;
    return Math.max(0, Math.ceil(this.#until - this.#context.clock.now()));
  }

  #aborted(what: string, key: string, cause: unknown): LockAbortedError {
    return new LockAbortedError(`Lock '${key}' ${what}`, key, { cause });
  }
}
