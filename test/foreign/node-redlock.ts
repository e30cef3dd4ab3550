import { Redis } from 'ioredis5';
import Redlock, { ExecutionError, type Lock } from 'redlock';
import { setTimeout as sleep } from 'node:timers/promises';
import type { ForeignAcquire, ForeignHold, ForeignLocks, ForeignRace } from './foreign-locks.js';

const RETRY_MS = 20;
const ONCE = { retryCount: 0 };

/** node-redlock on one server. */
export class NodeRedlock implements ForeignLocks {
  readonly #client: Redis;
  readonly #redlock: Redlock;

  constructor(url: string) {
    this.#client = new Redis(url);
    this.#redlock = new Redlock([this.#client], { retryDelay: RETRY_MS, retryJitter: 5 });
  }

  async acquire({ key, ttlMs, waitMs }: ForeignAcquire): Promise<ForeignHold | undefined> {
    if (ttlMs === undefined) throw new Error('node-redlock always sets a TTL');
    const retryCount = Math.ceil(waitMs / RETRY_MS);
    const lock = await unlessRefused(this.#redlock.acquire([key], ttlMs, { retryCount }));
    return lock && this.#holdOf(lock);
  }

  async race({ key, counter, order, callers, times, pauseMs, restMs }: ForeignRace): Promise<void> {
    const caller = async (): Promise<void> => {
      for (let i = 0; i < times; i += 1) {
        const lock = await this.#redlock.acquire([key], 30_000, { retryCount: -1 });
        const value = Number(await this.#client.get(counter));
        await sleep(pauseMs);
        await this.#client.set(counter, value + 1);
        await this.#client.rpush(order, 'theirs');
        await lock.release();
        await sleep(Math.random() * restMs);
      }
    };
    await Promise.all(Array.from({ length: callers }, caller));
  }

  async close(): Promise<void> {
    this.#client.disconnect();
  }

  #holdOf(first: Lock): ForeignHold {
    let lock = first;
    return {
      value: first.value,
      release: async () => (await unlessRefused(this.#redlock.release(lock, ONCE))) !== undefined,
      extend: async (ms) => {
        const extended = await unlessRefused(lock.extend(ms));
        lock = extended ?? lock;
        return extended !== undefined;
      },
    };
  }
}

async function unlessRefused<T>(answer: Promise<T>): Promise<T | undefined> {
  try {
    return await answer;
  } catch (error) {
    if (error instanceof ExecutionError) return undefined;
    throw error;
  }
}
