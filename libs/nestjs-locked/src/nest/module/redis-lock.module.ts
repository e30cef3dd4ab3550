import { type ConfigurableModuleAsyncOptions, type DynamicModule, Module } from '@nestjs/common';
import { DiscoveryModule } from '@nestjs/core';
import { LockConfigError } from '../../core/lock.errors.js';
import { OF_FOR_ROOT_ASYNC } from './module-option-table.js';
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
 * Instead of `useFactory`, `useClass` and `useExisting` take a class that implements `RedisLockOptionsFactory`.
 *
 * The application does not start if Redis cannot be reached (`LockStoreError`), if Redis refuses what the locks need,
 * or if an option is wrong (`LockConfigError`).
 */
@Module({ imports: [DiscoveryModule] })
export class RedisLockModule extends ConfigurableModuleClass {
  /** The options are checked when the application is made. @throws LockConfigError if there are none */
  static override forRoot(options: RedisLockModuleOptions & RedisLockModuleExtras): DynamicModule {
    assertGiven('forRoot', options);
    return super.forRoot(options);
  }

  /** @throws LockConfigError for an option that only what the factory returns can have, or if there are none */
  static override forRootAsync(
    options: ConfigurableModuleAsyncOptions<RedisLockModuleOptions, 'createRedisLockOptions'> &
      RedisLockModuleExtras,
  ): DynamicModule {
    assertGiven('forRootAsync', options);
    for (const name in options) {
      if (Object.hasOwn(OF_FOR_ROOT_ASYNC, name)) continue;
      throw new LockConfigError(
        `Unknown option '${name}' of RedisLockModule.forRootAsync: return it from useFactory, or leave it out`,
      );
    }
    return super.forRootAsync(options);
  }
}

function assertGiven(method: string, options: unknown): void {
  if (typeof options === 'object' && options !== null) return;
  const example = "{ connection: 'redis://localhost:6379' }";
  throw new LockConfigError(
    `RedisLockModule.${method} needs options, such as ${method === 'forRoot' ? example : `{ useFactory: () => (${example}) }`}`,
  );
}
