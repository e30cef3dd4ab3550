import { ConfigurableModuleBuilder } from '@nestjs/common';
import { ENGINE_FACTORY, type EngineFactory } from './engine-factory.js';
import { lockProviders } from './lock.providers.js';
import type { LockLifecycle } from './lock-lifecycle.js';
import type { RedisLockModuleExtras, RedisLockModuleOptions } from './redis-lock.options.js';
import { ShutdownHooksCheck } from './shutdown-hooks-check.js';
import { UnfencedDataSourcesCheck } from './unfenced-data-sources-check.js';

/** The injection token of a lock module's options. */
export const OPTIONS_TOKEN = Symbol.for(
  'nestjs-locked/RedisLockModuleOptions (what it injects comes from the imports of forRootAsync: { imports, inject, useFactory })',
);

/**
 * Engine and store are loaded in the background, because nothing needs them before Nest creates a lock module. Loading
 * must start together with this file: later, Jest may have reset its modules, and the engine would come with second
 * copies of what it shares with this file, the errors and the open transactions.
 */
const loading = Promise.all([import('./redis-locks.js'), import('./redis-engine.js')]);
loading.catch(() => {}); // the creation of a lock module reports it

/** Nest removes these from the options and passes them to the function below. */
const EXTRAS: RedisLockModuleExtras = { isGlobal: true, name: undefined };

/** Receives the application's options, from `forRoot` or `forRootAsync`. */
export const { ConfigurableModuleClass } = new ConfigurableModuleBuilder<RedisLockModuleOptions>({
  moduleName: 'RedisLock',
  optionsInjectionToken: OPTIONS_TOKEN,
})
  .setClassMethodName('forRoot')
  .setFactoryMethodName('createRedisLockOptions')
  .setExtras<RedisLockModuleExtras>(EXTRAS, (definition, { name, isGlobal = true }) => {
    const makeLocks = async (
      options: RedisLockModuleOptions,
      makeEngine: EngineFactory,
    ): Promise<LockLifecycle> => {
      const [{ redisLocks }] = await loading;
      return redisLocks(options, makeEngine, name);
    };
    const locks = lockProviders(name, makeLocks, [OPTIONS_TOKEN, ENGINE_FACTORY]);
    const engine = {
      provide: ENGINE_FACTORY,
      useFactory: async (): Promise<EngineFactory> => (await loading)[1].redisEngine,
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
