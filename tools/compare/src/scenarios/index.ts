import type { Scenario } from '../scenario.js';
import { businessError, resultAfterLoss } from './after-loss.js';
import { esModule } from './es-module.js';
import { lockLost, redisHangs, renewalRefused } from './held.js';
import { decoratorAboveGet, httpStatus } from './http.js';
import { collidingKeys, missingValue, misspeltParameter, noKeys } from './keys.js';
import * as migrations from './migrations.js';
import { databaseNumber, evenNumberOfServers } from './servers.js';
import * as services from './services.js';
import { hundredWaiters, retriesWithoutPause, shortLease, singleTry } from './traffic.js';
import * as waiting from './waiting.js';

/** All scenarios by name, the most telling first. */
export const SCENARIOS: Readonly<Record<string, Scenario>> = {
  'fifty-callers': services.fiftyCallers,
  'lock-in-transaction': services.lockInTransaction,
  'redis-hangs': redisHangs,
  'observable-result': services.observableResult,
  'work-outlives-lock': services.workOutlivesLock,
  'waiter-times-out': services.waiterTimesOut,
  'decorator-above-get': decoratorAboveGet,
  'business-error': businessError,
  'http-status': httpStatus,
  'result-after-loss': resultAfterLoss,
  'renewal-refused': renewalRefused,
  'lock-lost': lockLost,
  'late-reply': waiting.lateReply,
  'long-wait': waiting.longWait,
  'missing-value': missingValue,
  'colliding-keys': collidingKeys,
  'misspelt-parameter': misspeltParameter,
  'no-keys': noKeys,
  'nested-call': services.nestedCall,
  'one-of-two-waiters': waiting.oneOfTwoWaiters,
  'hundred-waiters': hundredWaiters,
  'short-lease': shortLease,
  'retries-without-pause': retriesWithoutPause,
  'acquire-times-out': waiting.acquireTimesOut,
  'order-of-tokens': waiting.orderOfTokens,
  'single-try': singleTry,
  'even-number-of-servers': evenNumberOfServers,
  'database-number': databaseNumber,
  'es-module': esModule,
  'migrate-murlock': migrations.migrateMurlock,
  'migrate-redlock': migrations.migrateRedlock,
  'migrate-redis-semaphore': migrations.migrateRedisSemaphore,
  'migrate-nestjs-redlock-universal': migrations.migrateNestjsRedlockUniversal,
  'migrate-nestjs-redis-lock': migrations.migrateNestjsRedisLock,
  'migrate-redisson': migrations.migrateRedisson,
};
