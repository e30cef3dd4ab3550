import { ConfigurableModuleBuilder } from '@nestjs/common';
import { ENGINE_FACTORY, type EngineFactory } from './engine-factory.js';
import { lockProviders } from './lock.providers.js';
import type { LockLifecycle } from './lock-lifecycle.js';
import type { RedisLockModuleExtras, RedisLockModuleOptions } from './redis-lock.options.js';
import { ShutdownHooksCheck } from './shutdown-hooks-check.js';
import { UnfencedDataSourcesCheck } from './unfenced-data-sources-check.js';

/** Under this, Nest keeps the options of a lock module. */
export const OPTIONS_TOKEN = Symbol.for('nestjs-locked/RedisLockModuleOptions');

/**
 * Engine and store are loaded in the background: nothing waits for them before Nest makes a lock module. The loading
 * must begin with that of this file. Later, Jest may have reset its modules, and the engine would come with a second
 * copy of all that it shares with this file: of the errors, and of the transactions that are open.
 */
const loading = Promise.all([import('./redis-locks.js'), import('./redis-engine.js')]);
loading.catch(() => {}); // told to whoever makes a lock module

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
