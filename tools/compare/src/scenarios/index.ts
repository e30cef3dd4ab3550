import type { Scenario } from '../scenario.js';

/**
 * All scenarios by name, the most telling first. Each is loaded when it is asked for: a run needs only one of them.
 */
export const SCENARIOS: Readonly<Record<string, () => Promise<Scenario>>> = {
  'fifty-callers': async () => (await import('./services.js')).fiftyCallers,
  'lock-in-transaction': async () => (await import('./transactions.js')).lockInTransaction,
  'redis-hangs': async () => (await import('./held.js')).redisHangs,
  'observable-result': async () => (await import('./services.js')).observableResult,
  'work-outlives-lock': async () => (await import('./services.js')).workOutlivesLock,
  'waiter-times-out': async () => (await import('./services.js')).waiterTimesOut,
  'decorator-above-get': async () => (await import('./http.js')).decoratorAboveGet,
  'business-error': async () => (await import('./after-loss.js')).businessError,
  'http-status': async () => (await import('./http.js')).httpStatus,
  'result-after-loss': async () => (await import('./after-loss.js')).resultAfterLoss,
  'renewal-refused': async () => (await import('./held.js')).renewalRefused,
  'lock-lost': async () => (await import('./held.js')).lockLost,
  'late-reply': async () => (await import('./waiting.js')).lateReply,
  'long-wait': async () => (await import('./waiting.js')).longWait,
  'missing-value': async () => (await import('./keys.js')).missingValue,
  'colliding-keys': async () => (await import('./keys.js')).collidingKeys,
  'misspelt-parameter': async () => (await import('./keys.js')).misspeltParameter,
  'no-keys': async () => (await import('./keys.js')).noKeys,
  'nested-call': async () => (await import('./services.js')).nestedCall,
  'one-of-two-waiters': async () => (await import('./waiting.js')).oneOfTwoWaiters,
  'hundred-waiters': async () => (await import('./traffic.js')).hundredWaiters,
  'short-lease': async () => (await import('./traffic.js')).shortLease,
  'retries-without-pause': async () => (await import('./traffic.js')).retriesWithoutPause,
  'acquire-times-out': async () => (await import('./waiting.js')).acquireTimesOut,
  'order-of-tokens': async () => (await import('./waiting.js')).orderOfTokens,
  'single-try': async () => (await import('./traffic.js')).singleTry,
  'even-number-of-servers': async () => (await import('./servers.js')).evenNumberOfServers,
  'database-number': async () => (await import('./servers.js')).databaseNumber,
  'es-module': async () => (await import('./es-module.js')).esModule,
  'migrate-murlock': async () => (await import('./migrations.js')).migrateMurlock,
  'migrate-redlock': async () => (await import('./migrations.js')).migrateRedlock,
  'migrate-redis-semaphore': async () => (await import('./migrations.js')).migrateRedisSemaphore,
  'migrate-nestjs-redlock-universal': async () =>
    (await import('./migrations.js')).migrateNestjsRedlockUniversal,
  'migrate-nestjs-redis-lock': async () => (await import('./migrations.js')).migrateNestjsRedisLock,
  'migrate-redisson': async () => (await import('./migrations.js')).migrateRedisson,
};
