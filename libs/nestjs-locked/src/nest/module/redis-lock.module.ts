import { type ConfigurableModuleAsyncOptions, type DynamicModule, Module } from '@nestjs/common';
import { DiscoveryModule } from '@nestjs/core';
import { LockConfigError } from '../../core/lock.errors.js';
import { assertOptions } from '../../core/option.js';
import { ASYNC_OPTIONS, EXTRA_OPTIONS, FROM_A_FACTORY } from './module-option-table.js';
import { ConfigurableModuleClass } from './redis-lock.module-definition.js';
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
  /**
   * The other options are checked when the application is created.
   * @throws LockConfigError if there are no options, or if `name` or `isGlobal` is wrong
   */
  static override forRoot(options: RedisLockModuleOptions & RedisLockModuleExtras): DynamicModule {
    assertGiven('forRoot', options);
    const { name, isGlobal } = options;
    assertOptions(EXTRA_OPTIONS, { name, isGlobal });
    return super.forRoot(options);
  }

  /**
   * @throws LockConfigError for a wrong option, for one that the factory has to return, or without exactly one of
   * `useFactory`, `useClass` and `useExisting`
   */
  static override forRootAsync(
    options: ConfigurableModuleAsyncOptions<RedisLockModuleOptions, 'createRedisLockOptions'> &
      RedisLockModuleExtras,
  ): DynamicModule {
    assertGiven('forRootAsync', options);
    assertOptions(ASYNC_OPTIONS, options, { elsewhere: FROM_A_FACTORY });
    const makers = (['useFactory', 'useClass', 'useExisting'] as const).filter(
      (name) => options[name] !== undefined,
    );
    if (makers.length !== 1) {
      const given =
        makers.length === 0
          ? 'without them, nothing makes the options'
          : `of ${makers.join(' and ')}, only one would be used`;
      throw new LockConfigError(
        `RedisLockModule.forRootAsync needs one of useFactory, useClass and useExisting: ${given}; write { useFactory: () => (${EXAMPLE}) }`,
      );
    }
    return super.forRootAsync(options);
  }
}

const EXAMPLE = "{ connection: 'redis://localhost:6379' }";

function assertGiven(method: string, options: unknown): void {
  if (typeof options === 'object' && options !== null) return;
  throw new LockConfigError(
    `RedisLockModule.${method} needs options, such as ${method === 'forRoot' ? EXAMPLE : `{ useFactory: () => (${EXAMPLE}) }`}`,
  );
}
