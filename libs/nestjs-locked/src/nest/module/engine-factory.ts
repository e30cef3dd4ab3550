import type { LockEngine, LockEngineOptions } from '../../core/engine/lock-engine.js';
import type { RedisLockModuleOptions } from './redis-lock.options.js';

/** Makes the engine of a lock module, without connecting to anything yet. The options have been checked. */
export type EngineFactory = (
  moduleOptions: RedisLockModuleOptions,
  supplies: Omit<LockEngineOptions, 'store' | 'clock'>,
  /** The class to make it of: of the copy of this package in which the module is. */
  Engine: typeof LockEngine,
) => LockEngine;

/**
 * Where every lock module gets its engine from. It is a provider of its own so that tests can override it: then nothing
 * connects to Redis, and the options of the application stay in force.
 */
export const ENGINE_FACTORY = Symbol.for('nestjs-locked/EngineFactory');
