import { type DynamicModule, Module } from '@nestjs/common';
import { DiscoveryModule } from '@nestjs/core';
import type { LockServiceOptions } from '../core/lock.options.js';
import { lockProviders } from '../nest/module/lock.providers.js';
import { LockLifecycle } from '../nest/module/lock-lifecycle.js';
import { inMemoryEngine } from './in-memory-lock-service.js';
import type { InMemoryLocks } from './in-memory-locks.js';

/** What `LockTestingModule.forRoot` takes: the options of the locks, without a connection. */
export interface LockTestingModuleOptions extends LockServiceOptions {
  /** Stands in for the lock module of this name. @default the module without a name */
  readonly name?: string;
  /**
   * Applications made with the same object exclude each other, like instances that share one Redis; applications made
   * with different objects do not. @default one object for the whole process
   */
  readonly locks?: InMemoryLocks;
}

/**
 * Takes the place of `RedisLockModule` in tests: the same services and the same rules, with locks in memory.
 *
 * @example Test.createTestingModule({ imports: [LockTestingModule.forRoot()], providers: [StockService] })
 */
@Module({ imports: [DiscoveryModule] })
export class LockTestingModule {
  /** The module to import in place of `RedisLockModule.forRoot`. */
  static forRoot({ name, locks, ...options }: LockTestingModuleOptions = {}): DynamicModule {
    return {
      module: LockTestingModule,
      global: true,
      ...lockProviders(name, () => new LockLifecycle(inMemoryEngine(options, locks))),
    };
  }
}
