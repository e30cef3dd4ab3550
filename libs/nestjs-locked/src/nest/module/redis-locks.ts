import { LockEngine } from '../../core/engine/lock-engine.js';
import { DEFAULT_KEY_PREFIX } from '../../core/keys/key-prefix.js';
import type { LockEvent } from '../../core/lock-events.js';
import { withDefaults } from '../../core/option.js';
import { resolveServiceOptions } from '../../core/resolved.options.js';
import type { EngineFactory } from './engine-factory.js';
import { LockLifecycle } from './lock-lifecycle.js';
import { LockLog } from './lock-log.js';
import { adviceForUnknown, MODULE_OPTIONS } from './module-option-table.js';
import type { RedisLockModuleOptions } from './redis-lock.options.js';

/** Makes the locks of a module, without connecting to anything yet. @throws LockConfigError */
export function redisLocks(
  moduleOptions: RedisLockModuleOptions,
  makeEngine: EngineFactory,
  name?: string,
): LockLifecycle {
  const advice = adviceForUnknown(Object.keys(moduleOptions));
  const options = resolveServiceOptions(moduleOptions, MODULE_OPTIONS, advice);
  const { keyPrefix, shutdownMs, startWithoutRedis } = withDefaults(MODULE_OPTIONS, moduleOptions);
  const log = new LockLog();
  const supplies = {
    options,
    ...(name === undefined ? {} : { name }),
    ...(keyPrefix === DEFAULT_KEY_PREFIX ? {} : { keyPrefix }),
    report: (event: LockEvent) => log.report(event),
  };
  const engine = makeEngine(moduleOptions, supplies, LockEngine);
  return new LockLifecycle(engine, { shutdownMs, startWithoutRedis });
}
