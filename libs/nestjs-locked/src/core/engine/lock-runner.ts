import type { Lock } from '../lock.js';
import type { LockKeys, WithLockOptions } from '../lock.options.js';

/**
 * The property with the runner of a lock service. `@Locked` uses only the runner, so that an object without one, such
 * as an auto-mock, is recognized. Otherwise the method would silently not run, or run unlocked.
 */
export const LOCK_RUNNER = Symbol.for('nestjs-locked/LockRunner');

/** Takes the lock, runs the work and releases the lock, for `@Locked` and `LockService.withLock`. */
export interface LockRunner {
  /**
   * @param callSite the caller's name in messages: `StockService.take`
   * @param template the key as it was written: `stock:<id>`
   */
  withLock<T>(
    keys: LockKeys,
    options: WithLockOptions,
    work: (lock: Lock) => T | Promise<T>,
    callSite?: string,
    template?: string,
  ): Promise<T>;
}

export interface HasLockRunner {
  readonly [LOCK_RUNNER]: LockRunner;
}

export function hasLockRunner(value: unknown): value is HasLockRunner {
  return (
    typeof value === 'object' &&
    value !== null &&
    LOCK_RUNNER in value &&
    typeof (value[LOCK_RUNNER] as Partial<LockRunner> | undefined)?.withLock === 'function'
  );
}

/** Marks an engine, for code that must recognize one without loading its class. */
export const IS_LOCK_ENGINE = Symbol('LockEngine');
