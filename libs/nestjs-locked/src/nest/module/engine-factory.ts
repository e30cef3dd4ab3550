import type { LockEngine, LockEngineOptions } from '../../core/engine/lock-engine.js';
import type { RedisLockModuleOptions } from './redis-lock.options.js';

/** Makes the engine of a lock module from checked options, without connecting to anything yet. */
export type EngineFactory = (
  moduleOptions: RedisLockModuleOptions,
  supplies: Omit<LockEngineOptions, 'store' | 'clock'>,
  /** The engine class of the package copy that has the module. */
  Engine: typeof LockEngine,
) => LockEngine;

/**
 * Where every lock module gets its engine. A separate provider, so that tests can override it: nothing then connects to
 * Redis, and the options of the application stay in force.
 */
export const ENGINE_FACTORY = Symbol.for('nestjs-locked/EngineFactory');
