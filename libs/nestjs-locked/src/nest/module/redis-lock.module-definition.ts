import { ConfigurableModuleBuilder } from '@nestjs/common';
import { ENGINE_FACTORY, type EngineFactory } from './engine-factory.js';
import { lockProviders } from './lock.providers.js';
import type { LockLifecycle } from './lock-lifecycle.js';
import type { RedisLockModuleExtras, RedisLockModuleOptions } from './redis-lock.options.js';
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
    // Engine and store are loaded here: a process that merely has decorated classes needs neither.
    const makeLocks = async (
      options: RedisLockModuleOptions,
      makeEngine: EngineFactory,
    ): Promise<LockLifecycle> => {
      const { redisLocks } = await import('./redis-locks.js');
      return redisLocks(options, makeEngine, name);
    };
    const locks = lockProviders(name, makeLocks, [OPTIONS_TOKEN, ENGINE_FACTORY]);
    const engine = {
      provide: ENGINE_FACTORY,
      useFactory: async (): Promise<EngineFactory> =>
        (await import('./redis-engine.js')).redisEngine,
    };
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
