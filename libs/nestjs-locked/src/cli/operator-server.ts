import { LockStoreError } from '../core/lock.errors.js';
import { systemClock } from '../core/time/clock.js';
import { wrongServer } from '../redis/connection/proof/wrong-server.js';
import { describedServer } from '../redis/connection/server/described-server.js';
import { openRedis } from '../redis/connection/server/open-redis.js';
import { reasonOf } from '../redis/connection/server/reason-of.js';
import type { RedisClient, RedisConnection } from '../redis/connection/server/redis-client.js';
import { withinLimit } from '../redis/connection/silence/time-limit.js';
import { isUnknownCommand, refusesUser } from '../redis/scripts/reply-error.js';
import { LIMIT_MS } from './ask-redis.js';
import { UsageError } from './usage-error.js';

/** Nothing is sent again, and no connection is made again: the operator is to see that Redis fails. */
export const ONCE = {
  connectTimeout: LIMIT_MS,
  retryStrategy: () => null,
  autoResendUnfulfilledCommands: false,
  maxRetriesPerRequest: 0,
  // With it, ioredis prints a warning if the user may not ask for INFO.
  enableReadyCheck: false,
  disconnectTimeout: 500,
};

/** The server of a URL, with one connection. */
export class OperatorServer {
  /** From the URL, and never connected. */
  readonly client: RedisClient;
  readonly redis: RedisConnection;
  #failure: Error | undefined;

  /** @throws UsageError if it is no URL of Redis */
  constructor(url: string) {
    this.client = clientOf(url);
    this.redis = this.client.duplicate({ ...ONCE, lazyConnect: true });
    this.redis.on('error', (error) => (this.#failure ??= error));
  }

  /** For messages. */
  get address(): string {
    return describedServer(this.client);
  }

  /** @returns whether it is a node of a cluster @throws LockStoreError, also for a sentinel and for a replica */
  async connect(): Promise<boolean> {
    const { redis, address } = this;
    await withinLimit(systemClock, LIMIT_MS, `connect to ${address}`, () => this.#connected());
    const ask = (): Promise<unknown> => redis.call('HELLO').catch(ifUnknown);
    const answer = await withinLimit(systemClock, LIMIT_MS, `ask ${address} what it is`, ask);
    const [mode, role] = [valueOf('mode', answer), valueOf('role', answer)];
    if (mode === 'sentinel') {
      throw new LockStoreError(
        `${address} is a sentinel, which has no locks: pass the URL of the master, which SENTINEL GET-MASTER-ADDR-BY-NAME tells there`,
      );
    }
    if (mode === 'cluster') return true;
    if (role === 'replica') {
      throw new LockStoreError(
        `${address} is a replica, which may be behind: pass the URL of its master, which INFO replication tells there`,
      );
    }
    return false;
  }

  async #connected(): Promise<void> {
    try {
      await this.redis.connect();
    } catch (error) {
      const reason = this.#failure ?? error; // ioredis only says that the connection was closed
      const remedy = refusesUser(reason) ? 'user and password' : 'the URL, and that Redis runs';
      throw (
        wrongServer(reason, this.address) ??
        new Error(`${reasonOf(reason).replace(/\.$/, '')}; check ${remedy}`, { cause: reason })
      );
    }
    const { db = 0 } = this.redis.options;
    // ioredis has selected it, but version 5 stays in database 0 if the server refuses.
    if (db !== 0) await this.redis.call('SELECT', db);
  }
}

function clientOf(url: string): RedisClient {
  try {
    return openRedis(url).client as RedisClient;
  } catch (error) {
    throw new UsageError(`REDIS_URL, or --redis: ${reasonOf(error)}`);
  }
}

/** Every user may send HELLO, but what stands before several servers may not know it. */
function ifUnknown(error: unknown): undefined {
  if (!isUnknownCommand(error)) throw error;
}

/** @param answer names and values in turn */
function valueOf(name: string, answer: unknown): unknown {
  const list: readonly unknown[] = Array.isArray(answer) ? answer : [];
  return list[list.indexOf(name) + 1];
}
