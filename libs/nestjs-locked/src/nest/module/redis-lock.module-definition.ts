import { ConfigurableModuleBuilder } from '@nestjs/common';
import { lockProviders } from './lock.providers.js';
import type { LockLifecycle } from './lock-lifecycle.js';
import type { RedisLockModuleExtras, RedisLockModuleOptions } from './redis-lock.options.js';
import { redisLocks } from './redis-locks.js';
import { ShutdownHooksCheck } from './shutdown-hooks-check.js';

const OPTIONS_TOKEN = Symbol.for('nestjs-locked/RedisLockModuleOptions');

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
    const makeLocks = (options: RedisLockModuleOptions): LockLifecycle => redisLocks(options, name);
    const { providers, exports } = lockProviders(name, makeLocks, [OPTIONS_TOKEN]);
    return {
      ...definition,
      global: isGlobal,
      providers: [...(definition.providers ?? []), ...providers, ShutdownHooksCheck],
      exports,
    };
  })
  .build();
