import { type DynamicModule, Module } from '@nestjs/common';
import { DiscoveryModule } from '@nestjs/core';
import { assertIsObject } from '../core/arguments.js';
import type { LockServiceOptions } from '../core/lock.options.js';
import { resolveServiceOptions } from '../core/resolved.options.js';
import { lockProviders } from '../nest/module/lock.providers.js';
import { LockLifecycle } from '../nest/module/lock-lifecycle.js';
import { sharedTestLocks } from './shared-test-locks.js';
import { assertTestLocks, makeEngine, type TestLocks } from './test-locks.js';

/** What `LockTestingModule.forRoot` takes: the options of the real module that do not concern Redis, and these. */
export interface LockTestingModuleOptions extends LockServiceOptions {
  /** Stands in for the lock module of this name. @default the module without a name */
  readonly name?: string;
  /**
   * What tells the test who locked what, and decides what the application meets. Applications with the same object
   * exclude each other, like instances that share one Redis. @default one object for the whole process
   */
  readonly locks?: TestLocks;
}

/**
 * Takes the place of `RedisLockModule` in a testing module that is put together by hand: the same services and the same
 * rules, with locks in memory. For a testing module that imports the real `AppModule`, there is `overrideLocks`.
 *
 * @example Test.createTestingModule({ imports: [LockTestingModule.forRoot()], providers: [StockService] })
 */
@Module({ imports: [DiscoveryModule] })
export class LockTestingModule {
  /**
   * For the module without a name, and once more for each name. Wrong options of the locks are refused when it is
   * compiled.
   * @throws LockConfigError if they are no object, or if `name` or `locks` is wrong
   */
  static forRoot(options: LockTestingModuleOptions = {}): DynamicModule {
    assertIsObject(options);
    const { name, locks = sharedTestLocks, ...ofLocks } = options;
    assertTestLocks('locks', locks);
    const makeLocks = (): LockLifecycle => {
      const supplies = { name, options: resolveServiceOptions(ofLocks), report: () => {} };
      return new LockLifecycle(makeEngine(locks, { supplies }));
    };
    return { module: LockTestingModule, global: true, ...lockProviders(name, makeLocks) };
  }
}
