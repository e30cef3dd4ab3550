import type { Redis } from 'ioredis';
import { randomBytes } from 'node:crypto';
import { LockScripts } from '../../libs/nestjs-locked/src/redis/scripts/lock-scripts.js';
import type { RedisScript } from '../../libs/nestjs-locked/src/redis/scripts/redis-script.js';
import { afterTest } from './after-test.js';
import { runScript } from './run-script.js';
import { BLOCK } from './script-replies.js';
import { uniqueKey } from './unique-key.js';

export type Reply = (string | number)[];

export const LEASE_MS = 300_000;
export const ACCEPT_MS = 30_000;
/** Differs from the default, so that a script that ignores the setting is detected. */
export const FENCE_KEEP_MS = 3_000_000;

/**
 * Runs the scripts on one key. After each, checks that every key it wrote has an expiry, unless the test made it
 * persistent.
 */
export class ScriptBench {
  readonly lock: string;
  readonly queue: string;
  readonly fence: string;
  readonly lapsed: string;
  readonly inboxPrefix: string;
  readonly scripts: LockScripts;

  constructor(
    readonly redis: Redis,
    readonly name = 'stock:42',
    readonly prefix = `${uniqueKey('scripts')}:`,
    /** Whether its fence is that of all locks with this prefix; otherwise, it has its own, as in a cluster. */
    readonly isShared = false,
  ) {
    this.lock = `${prefix}{${name}}`;
    this.queue = `${this.lock}:queue`;
    this.fence = isShared ? `${prefix}fence` : `${this.lock}:fence`;
    this.lapsed = `${this.lock}:lapsed`;
    this.inboxPrefix = `${prefix}inbox:`;
    this.scripts = new LockScripts({
      inCluster: false,
      inboxPrefix: this.inboxPrefix,
      acceptMs: ACCEPT_MS,
      fenceKeepMs: FENCE_KEEP_MS,
    });
  }

  /** The same key over another connection. */
  as(redis: Redis): ScriptBench {
    return new ScriptBench(redis, this.name, this.prefix, this.isShared);
  }

  get keys(): string[] {
    return [this.lock, this.queue, this.fence, this.lapsed];
  }

  /** Creates a process and subscribes to its inbox. */
  async peer(): Promise<Peer> {
    const peer = new Peer(this.redis, this.inboxPrefix);
    await peer.subscribe();
    return peer;
  }

  /** A token of a process whose inbox has no subscriber. */
  deadToken(): string {
    return `${randomBytes(16).toString('hex')}:1`;
  }

  /** A token of a process that receives no messages and polls instead. */
  deafToken(): string {
    return this.deadToken().replace(/:1$/, ':01');
  }

  deadTokens(count: number): string[] {
    return Array.from({ length: count }, () => this.deadToken());
  }

  acquire(
    token: string,
    options: { leaseMs?: number; nowait?: boolean; score?: number | string } = {},
  ): Promise<Reply> {
    const { leaseMs = LEASE_MS, nowait = false, score } = options;
    const args = [token, leaseMs, nowait ? 1 : 0];
    return this.#run(this.scripts.acquire, score === undefined ? args : [...args, score]);
  }

  recheck(token: string, newToken: string, score: number | string): Promise<Reply> {
    return this.#run(this.scripts.recheck, [token, newToken, LEASE_MS, score]);
  }

  /** @param newToken joins the queue again with this token */
  release(token: string, used: number, newToken = '', keepMs = 0): Promise<Reply> {
    const args = [token, used, newToken, LEASE_MS, keepMs];
    return this.#run(this.scripts.release, used === 0 ? [token] : args);
  }

  /** @param take as a last attempt, which may take the lock */
  async leave(token: string, { other = '', take = false } = {}): Promise<Reply> {
    if (take) return this.#run(this.scripts.leave, [token, other, LEASE_MS]);
    const reply = await this.#run(this.scripts.takeBack, [token, other, 0, 0]);
    if (reply[0] !== 'left' && reply[0] !== 'again') throw new Error(String(reply[0]));
    return reply;
  }

  async renew(token: string, used: number, leaseMs = LEASE_MS, reserves = BLOCK): Promise<Reply> {
    const [reply] = await this.renewAll([{ bench: this, token, used, leaseMs, reserves }]);
    return reply as Reply;
  }

  async renewAll(
    leases: readonly {
      bench: ScriptBench;
      token: string;
      used: number;
      leaseMs?: number;
      reserves?: number;
    }[],
  ): Promise<Reply[]> {
    const replies = await runScript(
      this.redis,
      this.scripts.renew,
      leases.flatMap(({ bench }) => bench.keys),
      leases.flatMap(({ token, leaseMs = LEASE_MS, used, reserves = BLOCK }) => [
        token,
        leaseMs,
        used,
        reserves,
      ]),
    );
    for (const { bench } of leases) await bench.assertEverythingEnds();
    return replies as Reply[];
  }

  async acquireTogether(
    asked: readonly { bench: ScriptBench; token: string }[],
    leaseMs = LEASE_MS,
  ): Promise<[string, ...Reply[]]> {
    const reply = await runScript(
      this.redis,
      this.scripts.acquireTogether,
      asked.flatMap(({ bench }) => bench.keys),
      [leaseMs, ...asked.map(({ token }) => token)],
    );
    for (const { bench } of asked) await bench.assertEverythingEnds();
    return reply as [string, ...Reply[]];
  }

  adopt(token: string, newToken: string, used: number): Promise<Reply> {
    return this.#run(this.scripts.adopt, [token, newToken, LEASE_MS, String(used)]);
  }

  revoke(id: string): Promise<unknown> {
    return this.#run(this.scripts.revoke, [id]);
  }

  /** What Redis stores for the key, without expiries and without the time at which the fence was written. */
  async state(): Promise<{ lock: string | null; queue: string[]; fence: string | null }> {
    const [lock, queue, fence] = await Promise.all([
      this.redis.get(this.lock),
      this.redis.zrange(this.queue, '0', '-1', 'WITHSCORES'),
      this.redis.get(this.fence),
    ]);
    return { lock, queue, fence: fence?.replace(/(?<=^\d+) \d+$/, '') ?? null };
  }

  /** The tokens in the queue, in order. */
  async waiting(): Promise<string[]> {
    return this.redis.zrange(this.queue, '0', '-1');
  }

  async lockLifeMs(): Promise<number> {
    return this.redis.pttl(this.lock);
  }

  /** Appends tokens to the queue. */
  async enqueue(...tokens: string[]): Promise<void> {
    const [, last = '1000'] = await this.redis.zrange(this.queue, '-1', '-1', 'WITHSCORES');
    let score = Number(last);
    await this.redis.zadd(this.queue, ...tokens.flatMap((token) => [++score, token]));
    await this.redis.pexpire(this.queue, 60_000);
  }

  async assertEverythingEnds(): Promise<void> {
    for (const key of this.keys) {
      const mayStay = this.#endless.has(key) || (this.isShared && key === this.fence);
      if ((await this.redis.pttl(key)) === -1 && !mayStay) {
        throw new Error(`'${key}' has no expiry`);
      }
    }
  }

  readonly #endless = new Set<string>();

  /** Sets a key that may exist without an expiry. */
  async setEndless(key: string, value: string): Promise<void> {
    this.#endless.add(key);
    await this.redis.set(key, value);
  }

  /** @returns the reply as a list, even if it is a single word */
  async #run(script: RedisScript, args: readonly (string | number)[]): Promise<Reply> {
    const reply = await runScript(this.redis, script, this.keys, args);
    await this.assertEverythingEnds();
    return (typeof reply === 'string' ? [reply] : reply) as Reply;
  }
}

/** A process as the scripts see it: a source of tokens, and an inbox. */
export class Peer {
  readonly id = randomBytes(16).toString('hex');
  readonly channel: string;
  readonly #redis: Redis;
  readonly #subscriber: Redis;
  #count = 0;
  #heard: string[] = [];
  #onEnd: (() => void) | undefined;

  constructor(redis: Redis, inboxPrefix: string) {
    this.#redis = redis;
    this.#subscriber = redis.duplicate();
    this.channel = inboxPrefix + this.id;
    afterTest(() => this.#subscriber.disconnect());
  }

  async subscribe(): Promise<void> {
    this.#subscriber.on('message', (channel: string, message: string) => {
      if (channel !== this.channel) return;
      if (message === 'end') this.#onEnd?.();
      else this.#heard.push(message);
    });
    await this.#subscriber.subscribe(this.channel);
  }

  token(): string {
    return `${this.id}:${++this.#count}`;
  }

  /** The messages published before this call that no earlier call has returned. */
  async heard(): Promise<string[]> {
    const end = new Promise<void>((resolve) => (this.#onEnd = resolve));
    await this.#redis.publish(this.channel, 'end');
    await end;
    return this.#heard.splice(0);
  }
}
