import { inspect } from 'node:util';
import type { LockEngine } from '../core/lock-engine.js';
import { LOCK_RUNNER, type HasLockRunner, type LockRunner } from '../core/lock-runner.js';
import type { Lock } from '../core/lock.js';
import { LockConfigError, LockNotAcquiredError } from '../core/lock.errors.js';
import type { LockOptions, WithLockOptions } from '../core/lock.options.js';

/**
 * Locks, for code that needs more than `@Locked`. Inject it; `RedisLockModule` provides it.
 *
 * All methods check key and options before any Redis traffic (`LockKeyError`, `LockConfigError`) and reject with
 * `LockStoreError` when Redis does not answer: then nobody knows whether the lock is held, and nothing was run.
 */
export class LockService implements HasLockRunner {
  readonly #engine: LockEngine;

  constructor(engine: LockEngine) {
    this.#engine = engine;
  }

  /** For `@Locked`; not part of the public contract. */
  get [LOCK_RUNNER](): LockRunner {
    return this.#engine;
  }

  /**
   * Waits for the lock, runs the work, releases. The recommended form: nothing can be forgotten.
   *
   * The work's result or error is what you get, whatever becomes of the release. If the lease is lost while the
   * work runs, `lock.signal` aborts; what to do about it is the work's decision.
   *
   * @throws LockNotAcquiredError if somebody else held it for `waitMs` · LockAbortedError if `signal` ended the wait
   */
  withLock<T>(key: string, work: (lock: Lock) => T | Promise<T>): Promise<T>;
  withLock<T>(
    key: string,
    options: WithLockOptions,
    work: (lock: Lock) => T | Promise<T>,
  ): Promise<T>;
  async withLock<T>(
    key: string,
    optionsOrWork: WithLockOptions | ((lock: Lock) => T | Promise<T>),
    work?: (lock: Lock) => T | Promise<T>,
  ): Promise<T> {
    const [options, run] =
      typeof optionsOrWork === 'function' ? [{}, optionsOrWork] : [optionsOrWork, work];
    if (typeof run !== 'function') {
      throw new LockConfigError(
        `Cannot lock '${key}': withLock was called without a function to run`,
        key,
      );
    }
    return this.#engine.withLock(key, options, run);
  }

  /**
   * Waits for the lock and hands it to you; release it in every case, best with `await using`.
   * @throws LockNotAcquiredError if somebody else held it for `waitMs` · LockAbortedError if `signal` ended the wait
   */
  async acquire(key: string, options?: LockOptions): Promise<Lock> {
    return this.#engine.acquire(key, options);
  }

  /**
   * Takes the lock if it is free now (or within `waitMs`, which is 0 here unless given).
   * @returns null if somebody else has it; a Redis that does not answer still throws
   */
  async tryAcquire(key: string, options?: LockOptions): Promise<Lock | null> {
    try {
      return await this.#engine.acquire(key, { waitMs: 0, ...options });
    } catch (error) {
      if (error instanceof LockNotAcquiredError) return null;
      throw error;
    }
  }

  /** Services that use `@Locked` have this one as a property; printing them should not print all of it. */
  [inspect.custom](): string {
    return 'LockService {}';
  }
}
