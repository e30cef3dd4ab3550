import type { LockServiceOptions } from '../../core/lock.options.js';
import type { RedisConnectionOptions } from '../../redis/connection/server/open-redis.js';
import type { WaitReplicas } from '../../redis/connection/server/required-replicas.js';
import type { RedisQuorumOptions } from '../../redis/quorum/open-quorum.js';
import type { RenewFrom } from '../../redis/redis-lock-store.js';

/** How locks are kept in Redis: as only this library knows them, or as those of Redisson. */
export type LockLayout = 'nestjs-locked' | 'redisson';

/** The options of `RedisLockModule.forRoot`. Only `connection` has no default. */
export interface RedisLockModuleOptions extends LockServiceOptions {
  /**
   * Where Redis is: a URL, ioredis options, or an ioredis 5 or 6 client. For a Redis Cluster, an ioredis `Cluster`, or
   * its options with some of its nodes: `{ cluster: [{ host, port }] }`. For independent masters, of which more than
   * half must agree: `{ quorum: [url, url, url] }`. The locks open two connections of their own to
   * the server, or to each master. A client stays yours: it is not modified, and you may close it at any time, even
   * before the locks are closed.
   */
  readonly connection: RedisConnectionOptions | RedisQuorumOptions;
  /** Precedes every key and channel in Redis. Services with the same prefix exclude each other. @default 'lock:' */
  readonly keyPrefix?: string;
  /**
   * How locks are kept in Redis. 'redisson': as by `RLock` of Redisson, so that a Java service and this one exclude
   * each other. The key of a lock is then its name alone, without `keyPrefix`. Nobody stands in line, and there are
   * neither readers, permits nor locks that are handed over. On one server, with or without Sentinel.
   * @default 'nestjs-locked'
   */
  readonly layout?: LockLayout;
  /**
   * How long a Redis Cluster, or a proxy in front of several servers, keeps the fencing number of a key after its clock
   * has passed it, in milliseconds. The clock may be set back this far, or be this far behind on a replica that takes
   * over, without a number being issued twice. Each key locked within this time costs about 140 bytes. A single server
   * keeps one number for all keys, which does not expire. @default 600_000
   */
  readonly fenceKeepMs?: number;
  /**
   * How many replicas must have acknowledged a lease, or its renewal, before it counts. A failover to one of them then
   * loses no lock, and an old master that still answers cannot keep a lease alive. Each lock costs a round trip to the
   * replicas. If fewer replicas are connected, nobody gets a lock: calls fail with LockStoreError, and the application
   * does not start. With `{ replicas, aof: true }`, they must also have written it to disk. @default 0
   */
  readonly waitReplicas?: number | WaitReplicas;
  /**
   * 'worker': a worker thread with its own connection renews the leases of held locks while the event loop of this
   * process is blocked, so that synchronous work may take longer than `leaseMs`. It begins when half of a lease is over
   * without a renewal, and ends with the `maxHoldMs` of the hold, or after ten minutes of a blocked event loop. Not
   * with a Redis Cluster or `waitReplicas`, and not if `connection` has functions. @default 'main'
   */
  readonly renewFrom?: RenewFrom;
  /**
   * How long the start of the application waits for Redis, in milliseconds. Failures that may pass, such as a refused
   * connection, are retried; a missing right is not. @default 10_000
   */
  readonly startMs?: number;
  /**
   * true: the application starts even if Redis could not be reached within `startMs`, and keeps trying to connect.
   * Until it has connected, calls and `LockService.ping` fail at once with LockStoreError. @default false
   */
  readonly startWithoutRedis?: boolean;
  /**
   * How long closing the locks may take, in milliseconds. Work that holds locks gets all of it but the last second, or
   * the last tenth if that is shorter, which is reserved for the last commands to Redis. After that, the work's signal
   * aborts and its lease is left to expire. @default 10_000
   */
  readonly shutdownMs?: number;
}

/** Options that must be known before a factory runs, even with `forRootAsync`. */
export interface RedisLockModuleExtras {
  /**
   * Distinguishes several lock services: `@Locked('...', { service: 'billing' })`. @default none: the service without a
   * name
   */
  readonly name?: string | undefined;
  /** Whether other modules can inject `LockService` without importing this one. @default true */
  readonly isGlobal?: boolean;
}

/**
 * The class that `RedisLockModule.forRootAsync` instantiates (`useClass`) or injects (`useExisting`) to get its
 * options.
 *
 * @example
 * @Injectable()
 * class LockOptions implements RedisLockOptionsFactory {
 *   constructor(private readonly config: ConfigService) {}
 *   createRedisLockOptions() {
 *     return { connection: this.config.getOrThrow('REDIS_URL') };
 *   }
 * }
 */
export interface RedisLockOptionsFactory {
  /** Called once, while the application starts. */
  createRedisLockOptions(): RedisLockModuleOptions | Promise<RedisLockModuleOptions>;
}
