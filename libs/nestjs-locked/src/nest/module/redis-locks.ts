import { LockEngine } from '../../core/engine/lock-engine.js';
import { invalidOption, LockConfigError } from '../../core/lock.errors.js';
import type { LockEvent } from '../../core/lock-events.js';
import { resolveServiceOptions } from '../../core/resolved.options.js';
import { shownValue } from '../../core/runtime/shown-value.js';
import { requiredReplicas } from '../../redis/connection/required-replicas.js';
import { NOT_FROM_A_FACTORY, OF_THE_MODULE } from './known-module-options.js';
import { LockLifecycle } from './lock-lifecycle.js';
import { LockLog } from './lock-log.js';
import { DEFAULT_KEY_PREFIX, type EngineFactory } from './redis-engine.js';
import type { RedisLockModuleOptions } from './redis-lock.options.js';

const DEFAULT_SHUTDOWN_MS = 10_000;

/** Makes the locks that the options ask for, without connecting to anything yet. @throws LockConfigError */
export function redisLocks(
  moduleOptions: RedisLockModuleOptions,
  makeEngine: EngineFactory,
  name?: string,
): LockLifecycle {
  const options = resolveServiceOptions(moduleOptions, OF_THE_MODULE, NOT_FROM_A_FACTORY);
  const keyPrefix = moduleOptions.keyPrefix ?? DEFAULT_KEY_PREFIX;
  const shutdownMs = moduleOptions.shutdownMs ?? DEFAULT_SHUTDOWN_MS;
  const startWithoutRedis = moduleOptions.startWithoutRedis ?? false;
  assertKeyPrefix(keyPrefix);
  assertMilliseconds('startMs', moduleOptions.startMs ?? 0);
  if (typeof startWithoutRedis !== 'boolean') {
    throw invalidOption('startWithoutRedis', startWithoutRedis, 'must be true or false');
  }
  assertMilliseconds('shutdownMs', shutdownMs);
  assertMilliseconds('fenceKeepMs', moduleOptions.fenceKeepMs ?? 0);
  requiredReplicas(moduleOptions.waitReplicas ?? 0);
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

function assertKeyPrefix(prefix: string): void {
  if (typeof prefix === 'string' && !/[{}\s]/.test(prefix)) return;
  throw new LockConfigError(
    `Invalid option keyPrefix: ${shownValue(prefix)} must be a text without braces and white space; the hash tag is the lock's name`,
  );
}

function assertMilliseconds(name: string, ms: number): void {
  if (Number.isSafeInteger(ms) && ms >= 0) return;
  throw new LockConfigError(
    `Invalid option ${name}: ${shownValue(ms)} must be a whole number of milliseconds from 0`,
  );
}
