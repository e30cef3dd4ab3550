import type { Redis } from 'ioredis';
import { createHash } from 'node:crypto';
import type { LockMode } from '../../libs/nestjs-locked/src/core/lock-mode.js';
import { leaseToken } from '../../libs/nestjs-locked/src/core/store/lease-token.js';

/** Locks of processes that do not exist, written into Redis as these would have them. */
export class OtherProcesses {
  readonly #redis: Redis;

  constructor(redis: Redis) {
    this.#redis = redis;
  }

  /** @returns the token in Redis */
  async hold(key: string, { process = 1, label = 'Work.do', agoMs = 0, host = 'app' } = {}) {
    const token = await this.#token(process, label, agoMs, host);
    await this.#redis.set(`lock:{${key}}`, token, 'PX', 60_000);
    return token;
  }

  /** As many processes that read the key. */
  async read(key: string, count: number, { label = 'Report.make', host = 'app' } = {}) {
    const ends = Date.now() + 60_000;
    const readers: string[] = [];
    for (let i = 0; i < count; i++)
      readers.push(`${ends}:${await this.#token(i + 100, label, 90_000, host, 'shared')}`);
    await this.#redis.set(`lock:{${key}}`, `shared ${readers.join(' ')}`, 'PX', 60_000);
  }

  async wait(key: string, { process = 2, label = 'Work.do', agoMs = 0, host = 'app' } = {}) {
    const token = await this.#token(process, label, agoMs, host);
    await this.#redis.zadd(`lock:{${key}}:queue`, (Date.now() - agoMs) * 1_000, token);
  }

  /** Very many at a time. */
  async holdAll(keys: readonly string[]): Promise<void> {
    const pipeline = this.#redis.pipeline();
    for (const [i, key] of keys.entries()) {
      pipeline.set(`lock:{${key}}`, leaseToken(idOf(1), (Date.now() - i) * 1_000), 'PX', 600_000);
    }
    await pipeline.exec();
  }

  async #token(
    process: number,
    label: string,
    agoMs: number,
    host: string,
    mode: LockMode = 'exclusive',
  ): Promise<string> {
    const record = JSON.stringify({ host, pid: process });
    await this.#redis.set(`lock:process:${idOf(process)}`, record, 'PX', 60_000);
    return leaseToken(idOf(process), (Date.now() - agoMs) * 1_000, false, label, { mode });
  }
}

function idOf(process: number): string {
  return createHash('md5').update(String(process)).digest('hex');
}
