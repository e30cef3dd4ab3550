import { Module } from '@nestjs/common';
import { DiscoveryModule } from '@nestjs/core';
import { ConfigurableModuleClass } from './redis-lock.module-definition.js';

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
export class RedisLockModule extends ConfigurableModuleClass {}
