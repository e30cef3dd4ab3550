import { expect } from '@jest/globals';
import { eventually } from './eventually.js';
import { sharedNow } from './lock-process.js';
import type { OwnRedis } from './own-redis.js';

/** Reads the state of locks from Redis, independently of the processes that use them. */
export class LockObserver {
  constructor(
    private readonly server: Pick<OwnRedis, 'admin'>,
    private readonly prefix = 'lock:',
  ) {}

  /** The lease token in Redis; null when the lock is free. */
  holder(key: string): Promise<string | null> {
    return this.server.admin.get(this.#redisKey(key));
  }

  /**
   * When the current lease ends in Redis unless it is renewed, on the clock of `sharedNow`: between the time of the
   * query plus PTTL and the time of the reply plus PTTL. Redis counts in whole milliseconds.
   */
  async leaseEnd(key: string): Promise<{ earliest: number; latest: number }> {
    const asked = sharedNow();
    const pttl = await this.server.admin.pttl(this.#redisKey(key));
    if (pttl < 0) throw new Error(`'${key}' has no lease with an expiry (PTTL ${pttl})`);
    return { earliest: asked + pttl - 2, latest: sharedNow() + pttl + 2 };
  }

  /** Ends the current lease in Redis, as if it had expired. */
  async endLease(key: string): Promise<void> {
    await this.server.admin.del(this.#redisKey(key));
  }

  /** Waits until the queue of the key has this many entries. */
  async waiting(key: string, processes: number): Promise<void> {
    const queue = `${this.#redisKey(key)}:queue`;
    await eventually(async () => expect(await this.server.admin.zcard(queue)).toBe(processes));
  }

  /** Waits until neither the lock nor its queue exists any more; the fence may remain. */
  async nothingLeft(key: string): Promise<void> {
    const keys = [this.#redisKey(key), `${this.#redisKey(key)}:queue`];
    await eventually(async () => expect(await this.server.admin.exists(...keys)).toBe(0));
  }

  #redisKey(key: string): string {
    return `${this.prefix}{${key}}`;
  }
}
