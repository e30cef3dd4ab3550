import { expect } from '@jest/globals';
import { eventually } from './eventually.js';
import { sharedNow } from './lock-process.js';
import type { OwnRedis } from './own-redis.js';

/** Looks at locks from outside: what Redis itself says, beside what the processes say. */
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
   * When the present lease ends in Redis if nobody renews it, on the shared clock. Not later than the answer plus
   * PTTL, not earlier than the question plus PTTL; Redis counts in whole milliseconds.
   */
  async leaseEnd(key: string): Promise<{ earliest: number; latest: number }> {
    const asked = sharedNow();
    const pttl = await this.server.admin.pttl(this.#redisKey(key));
    if (pttl < 0) throw new Error(`'${key}' has no lease with an end (PTTL ${pttl})`);
    return { earliest: asked + pttl - 2, latest: sharedNow() + pttl + 2 };
  }

  /** Lets the present lease end now, as if its time were over. */
  async endLease(key: string): Promise<void> {
    await this.server.admin.del(this.#redisKey(key));
  }

  /** Waits until so many processes stand in the queue of the key. */
  async waiting(key: string, processes: number): Promise<void> {
    const queue = `${this.#redisKey(key)}:queue`;
    await eventually(async () => expect(await this.server.admin.zcard(queue)).toBe(processes));
  }

  /** Waits until nothing of the key is left but its fence. */
  async nothingLeft(key: string): Promise<void> {
    const keys = [this.#redisKey(key), `${this.#redisKey(key)}:queue`];
    await eventually(async () => expect(await this.server.admin.exists(...keys)).toBe(0));
  }

  #redisKey(key: string): string {
    return `${this.prefix}{${key}}`;
  }
}
