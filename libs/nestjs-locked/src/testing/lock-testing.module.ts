import { Module, type DynamicModule } from '@nestjs/common';
import { DiscoveryModule } from '@nestjs/core';
import type { LockServiceOptions } from '../core/lock.options.js';
import { lockProviders } from '../nest/lock.providers.js';
import { LockLifecycle } from '../nest/lock-lifecycle.js';
import { inMemoryEngine } from './in-memory-lock-service.js';

export interface LockTestingModuleOptions extends LockServiceOptions {
  /** Stands in for the lock module of this name. @default the module without a name */
  readonly name?: string;
}

/**
 * Takes the place of `RedisLockModule` in tests: the same services and the same rules, with locks in memory.
 *
 * @example Test.createTestingModule({ imports: [LockTestingModule.forRoot()], providers: [StockService] })
 */
@Module({ imports: [DiscoveryModule] })
export class LockTestingModule {
  static forRoot({ name, ...options }: LockTestingModuleOptions = {}): DynamicModule {
    return {
      module: LockTestingModule,
      global: true,
      ...lockProviders(name, () => new LockLifecycle(inMemoryEngine(options), 0)),
    };
  }
}
