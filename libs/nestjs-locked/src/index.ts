/**
 * Locks for methods, requests and blocks of code: the decorator, the service, and the module that connects them to
 * Redis.
 *
 * @module nestjs-locked
 */
export type { DetachOptions, Lock } from './core/lock.js';
export type { LockHolder, LockInfo, LockWait } from './core/lock-info.js';
export type {
  AdoptOptions,
  BusyContext,
  GivenWhenBusy,
  LockKeys,
  LockOptions,
  LockServiceOptions,
  OnBusy,
  WithLockOptions,
} from './core/lock.options.js';
export type { HeldMode, LockMode, ModeOfKey, PermitsOfKey } from './core/lock-mode.js';
export {
  LockAbortedError,
  LockConfigError,
  LockError,
  LockCommitUnknownError,
  LockDeadlockError,
  LockFencedError,
  LockInTransactionError,
  LockKeyError,
  LockLostError,
  LockNotAdoptedError,
  LockNotHeldError,
  LockQueueFullError,
  LockNotAcquiredError,
  LockStoreError,
} from './core/lock.errors.js';
export type { LockErrorCode, LockLostReason } from './core/lock.errors.js';
export type {
  AcquiredVia,
  LockAcquireMessage,
  LockEventMessage,
  LockHoldMessage,
} from './core/events/lock-messages.js';
export type { DeposedReason, Leadership, LeaderWork, LeadOptions } from './core/leadership.js';
export type { LockEvent, LockNesting } from './core/lock-events.js';
export type {
  FenceOptions,
  InsideTransaction,
  TransactionOptions,
  TransactionTimeouts,
} from './core/transaction.options.js';
export { lockKey } from './core/keys/lock-key.js';
export type { KeyValue } from './core/keys/key-value.js';
export { LockExceptionFilter } from './nest/lock-exception.filter.js';
export type { LockExceptionFilterOptions } from './nest/lock-exception-filter.options.js';
export { LockInterceptor } from './nest/lock.interceptor.js';
export type { RequestKey } from './nest/requests/request-key.js';
export { Locked } from './nest/decorator/locked.decorator.js';
export type { LockedMethod, LockedMethodOf } from './nest/decorator/locked-method.types.js';
export type { LockedOptions } from './nest/decorator/locked.options.js';
export type { ResultKind } from './nest/result/result-kind.js';
export { KeyParam } from './nest/decorator/key-param.decorator.js';
export { LockService } from './nest/lock.service.js';
export { InjectLockService } from './nest/decorator/lock-service.token.js';
export { RedisLockModule } from './nest/module/redis-lock.module.js';
export type {
  RedisLockModuleExtras,
  RedisLockModuleOptions,
  RedisLockOptionsFactory,
} from './nest/module/redis-lock.options.js';
export type {
  RedisClusterOptions,
  RedisConnectionOptions,
  RedisOptions,
} from './redis/connection/server/open-redis.js';
export type { RedisCluster } from './redis/connection/server/redis-cluster.js';
export type { RedisQuorumOptions } from './redis/quorum/open-quorum.js';
export type { RedisClient, RedisConnection } from './redis/connection/server/redis-client.js';
export type { WaitReplicas } from './redis/connection/server/required-replicas.js';
