import type { LockServiceOptions } from '../../core/lock.options.js';
import type { RedisConnectionOptions } from '../../redis/connection/server/open-redis.js';
import type { WaitReplicas } from '../../redis/connection/server/required-replicas.js';

/** What `RedisLockModule.forRoot` takes. Only `connection` has no default. */
export interface RedisLockModuleOptions extends LockServiceOptions {
  /**
   * Where Redis is: a URL, options as ioredis takes them, or an ioredis 5 or 6 client. For a Redis Cluster a `Cluster`
   * of ioredis, or its options with some of its nodes: `{ cluster: [{ host, port }] }`. The locks open two connections
   * of their own to the server, or to each master. A client stays yours: nothing is set on it, and you may close it at
   * any time, even before the locks are closed.
   */
  readonly connection: RedisConnectionOptions;
  /** Precedes every key and channel in Redis. Services with the same prefix exclude each other. @default 'lock:' */
  readonly keyPrefix?: string;
  /**
   * How long Redis keeps the fencing number of a key after its clock has passed it, in milliseconds. That clock may be
   * set back this far, or be this far behind on a replica that takes over, without a number being given out twice. Each
   * key that was locked within this time costs about 140 bytes. @default 600_000
   */
  readonly fenceKeepMs?: number;
  /**
   * How many replicas must have acknowledged a lease, or its renewal, before it counts. A failover to one of them then
   * loses no lock, and an old master that still answers cannot keep anybody's lease alive. It costs a round trip to the
   * replicas for each lock. If fewer of them are there, nobody gets a lock: calls end in LockStoreError, and the
   * application does not start. With `{ replicas, aof: true }`, they must have written it to disk as well. @default 0
   */
  readonly waitReplicas?: number | WaitReplicas;
  /**
   * How long the start of the application waits for Redis, in milliseconds. A trouble that may pass, such as a refused
   * connection, is waited out; a missing right is not. @default 10_000
   */
  readonly startMs?: number;
  /**
   * true: the application starts even if Redis could not be reached in `startMs`, and keeps looking for it. Until it
   * is found, calls fail at once with LockStoreError, and so does `LockService.ping`. @default false
   */
  readonly startWithoutRedis?: boolean;
  /**
   * How long closing the locks may take, in milliseconds. Work that holds locks has all of it except for the last tenth
   * (at most a second), which is kept for telling Redis. After that the work's signal aborts and the lease is left to
   * run out. @default 10_000
   */
  readonly shutdownMs?: number;
}

/** What must be known before the options are, even with `forRootAsync`. */
export interface RedisLockModuleExtras {
  /**
   * Tells several lock services apart: `@Locked('...', { service: 'billing' })`. @default none: the service without a
   * name
   */
  readonly name?: string | undefined;
  /** Whether other modules can inject `LockService` without importing this one. @default true */
  readonly isGlobal?: boolean;
}

/**
 * What `RedisLockModule.forRootAsync` makes an instance of (`useClass`) or finds (`useExisting`) to get its options.
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
