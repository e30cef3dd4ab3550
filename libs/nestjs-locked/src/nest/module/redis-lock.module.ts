import {
  type ConfigurableModuleAsyncOptions,
  type DynamicModule,
  Inject,
  Module,
  Optional,
} from '@nestjs/common';
import { DiscoveryModule } from '@nestjs/core';
import { ENGINE_FACTORY } from './engine-factory.js';
import {
  assertModuleAsyncOptions,
  assertModuleOptions,
  importedWithoutOptions,
  withCheckedOptions,
} from './module-arguments.js';
import { ConfigurableModuleClass, OPTIONS_TOKEN } from './redis-lock.module-definition.js';
import type { RedisLockModuleExtras, RedisLockModuleOptions } from './redis-lock.options.js';

/**
 * Provides `LockService` and makes `@Locked` work. Import it once, in the root module:
 *
 * @example RedisLockModule.forRoot({ connection: 'redis://localhost:6379' })
 * @example RedisLockModule.forRootAsync({
 *   inject: [ConfigService],
 *   useFactory: (config: ConfigService) => ({ connection: config.getOrThrow('REDIS_URL') }),
 * })
 *
 * `useClass` and `useExisting` take a class that implements `RedisLockOptionsFactory` instead.
 *
 * The application does not start if Redis cannot be reached (`LockStoreError`), if Redis refuses what the locks need,
 * or if an option is wrong (`LockConfigError`).
 */
@Module({ imports: [DiscoveryModule] })
export class RedisLockModule extends ConfigurableModuleClass {
  /** Called by Nest. @throws LockConfigError if the class was imported itself, without options */
  constructor(@Optional() @Inject(ENGINE_FACTORY) makeEngine?: unknown) {
    super();
    if (makeEngine === undefined) throw importedWithoutOptions();
  }

  /**
   * The other options are checked when the application is created.
   * @throws LockConfigError if there are no options, or if `name` or `isGlobal` is wrong
   */
  static override forRoot(options: RedisLockModuleOptions & RedisLockModuleExtras): DynamicModule {
    assertModuleOptions(options);
    return super.forRoot(options);
  }

  /**
   * What the factory makes is checked when the application is created.
   * @throws LockConfigError for a wrong option, for one that the factory has to return, without exactly one of
   * `useFactory`, `useClass` and `useExisting`, or if the factory has more parameters than `inject` lists providers
   */
  static override forRootAsync(
    options: ConfigurableModuleAsyncOptions<RedisLockModuleOptions, 'createRedisLockOptions'> &
      RedisLockModuleExtras,
  ): DynamicModule {
    assertModuleAsyncOptions(options);
    return withCheckedOptions(super.forRootAsync(options), OPTIONS_TOKEN, options);
  }
}
