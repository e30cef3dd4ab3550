import { ConfigurableModuleBuilder } from '@nestjs/common';
import { lockProviders } from './lock.providers.js';
import type { LockLifecycle } from './lock-lifecycle.js';
import { ENGINE_FACTORY, type EngineFactory, redisEngine } from './redis-engine.js';
import type { RedisLockModuleExtras, RedisLockModuleOptions } from './redis-lock.options.js';
import { redisLocks } from './redis-locks.js';
import { ShutdownHooksCheck } from './shutdown-hooks-check.js';
import { UnfencedDataSourcesCheck } from './unfenced-data-sources-check.js';

/** Under this, Nest keeps the options of a lock module. */
export const OPTIONS_TOKEN = Symbol.for('nestjs-locked/RedisLockModuleOptions');

/** Nest takes what is named here out of the options, and gives it to the function below. */
const EXTRAS: RedisLockModuleExtras = { isGlobal: true, name: undefined };

/** Where the application's options arrive, whether given to `forRoot` or made by `forRootAsync`. */
export const { ConfigurableModuleClass } = new ConfigurableModuleBuilder<RedisLockModuleOptions>({
  moduleName: 'RedisLock',
  optionsInjectionToken: OPTIONS_TOKEN,
})
  .setClassMethodName('forRoot')
  .setFactoryMethodName('createRedisLockOptions')
  .setExtras<RedisLockModuleExtras>(EXTRAS, (definition, { name, isGlobal = true }) => {
    const makeLocks = (options: RedisLockModuleOptions, makeEngine: EngineFactory): LockLifecycle =>
      redisLocks(options, makeEngine, name);
    const locks = lockProviders(name, makeLocks, [OPTIONS_TOKEN, ENGINE_FACTORY]);
    const engine = { provide: ENGINE_FACTORY, useValue: redisEngine };
    return {
      ...definition,
      global: isGlobal,
      providers: [
        ...(definition.providers ?? []),
        engine,
        ...locks.providers,
        ShutdownHooksCheck,
        UnfencedDataSourcesCheck,
      ],
      exports: locks.exports,
    };
  })
  .build();
