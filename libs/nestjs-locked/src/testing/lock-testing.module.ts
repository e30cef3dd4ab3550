import { type DynamicModule, Module } from '@nestjs/common';
import { DiscoveryModule } from '@nestjs/core';
import { assertIsObject } from '../core/arguments.js';
import { LockConfigError } from '../core/lock.errors.js';
import type { LockServiceOptions } from '../core/lock.options.js';
import { adviceForEach } from '../core/option-advice.js';
import { resolveServiceOptions } from '../core/resolved.options.js';
import { lockProviders } from '../nest/module/lock.providers.js';
import { LockLifecycle } from '../nest/module/lock-lifecycle.js';
import { EXTRA_OPTIONS, MODULE_OPTIONS } from '../nest/module/module-option-table.js';
import { sharedTestLocks } from './shared-test-locks.js';
import { assertTestLocks, makeEngine, TestLocks } from './test-locks.js';

/** The options of `LockTestingModule.forRoot`: those of the real module that do not concern Redis, and these. */
export interface LockTestingModuleOptions extends LockServiceOptions {
  /** Replaces the lock module of this name. @default the module without a name */
  readonly name?: string;
  /**
   * Records the calls, and lets the test control the locks. Applications with the same object exclude each other, like
   * instances that share one Redis. @default those of `overrideLocks`, or else one object for the whole process
   */
  readonly locks?: TestLocks;
}

/** The locks of modules whose options name none; `overrideLocks` replaces them. */
export const DEFAULT_LOCKS = Symbol.for('nestjs-locked/TestLocks');

const NOT_IN_MEMORY = adviceForEach(
  Object.keys({ ...MODULE_OPTIONS, ...EXTRA_OPTIONS }),
  'leave it out: this module keeps the locks in memory, and is global',
);

/**
 * Replaces `RedisLockModule` in a testing module assembled by hand: the same services and rules, with locks in memory.
 * For a testing module that imports the real `AppModule`, use `overrideLocks`.
 *
 * @example Test.createTestingModule({ imports: [LockTestingModule.forRoot()], providers: [StockService] })
 */
@Module({ imports: [DiscoveryModule] })
export class LockTestingModule {
  /**
   * Import it once for the module without a name, and once for each name. Invalid lock options are refused when the
   * module is compiled.
   * @throws LockConfigError if `options` is not an object, or if `name` or `locks` is invalid
   */
  static forRoot(options: LockTestingModuleOptions = {}): DynamicModule {
    if (options instanceof TestLocks) {
      throw new LockConfigError(
        'LockTestingModule.forRoot takes options; pass the TestLocks as one: { locks }',
      );
    }
    assertIsObject(options, ['locks', 'name', 'waitMs', 'leaseMs', '']);
    const { name, locks, ...ofLocks } = options;
    if (locks !== undefined) assertTestLocks('locks', locks);
    const makeLocks = (byDefault: TestLocks): LockLifecycle => {
      const supplies = {
        name,
        options: resolveServiceOptions(ofLocks, {}, NOT_IN_MEMORY),
        report: () => {},
      };
      return new LockLifecycle(makeEngine(locks ?? byDefault, { supplies }));
    };
    const { providers, exports } = lockProviders(name, makeLocks, [DEFAULT_LOCKS]);
    providers.push({ provide: DEFAULT_LOCKS, useValue: sharedTestLocks });
    return { module: LockTestingModule, global: true, providers, exports };
  }
}
