import type { Redis } from 'ioredis';
import { randomBytes } from 'node:crypto';
import { LockScripts } from '../../libs/nestjs-locked/src/redis/scripts/lock-scripts.js';
import type { RedisScript } from '../../libs/nestjs-locked/src/redis/scripts/redis-script.js';
import { afterTest } from './after-test.js';
import { runScript } from './run-script.js';
import { uniqueKey } from './unique-key.js';

export type Reply = (string | number)[];

export const LEASE_MS = 300_000;
export const ACCEPT_MS = 30_000;
/** Unlike the default, so that a script that does not read it is noticed. */
export const FENCE_KEEP_MS = 3_000_000;

/** Runs the scripts on one key, and checks after each that nothing was left without an end. */
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
  ) {
    this.lock = `${prefix}{${name}}`;
    this.queue = `${this.lock}:queue`;
    this.fence = `${this.lock}:fence`;
    this.lapsed = `${this.lock}:lapsed`;
    this.inboxPrefix = `${prefix}inbox:`;
    this.scripts = new LockScripts({
      inCluster: false,
      inboxPrefix: this.inboxPrefix,
      acceptMs: ACCEPT_MS,
      fenceKeepMs: FENCE_KEEP_MS,
    });
  }

  /** The same key through another connection. */
  as(redis: Redis): ScriptBench {
    return new ScriptBench(redis, this.name, this.prefix);
  }

  get keys(): string[] {
    return [this.lock, this.queue, this.fence, this.lapsed];
  }

  /** A process whose inbox is subscribed. */
  async peer(): Promise<Peer> {
    const peer = new Peer(this.redis, this.inboxPrefix);
    await peer.subscribe();
    return peer;
  }

  /** A token of a process that nobody listens for. */
  deadToken(): string {
    return `${randomBytes(16).toString('hex')}:1`;
  }

  /** A token of a process that no message reaches, and that looks for itself. */
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
    const args = [token, leaseMs, leaseMs + FENCE_KEEP_MS, nowait ? 1 : 0];
    return this.#run(this.scripts.acquire, score === undefined ? args : [...args, score]);
  }

  recheck(token: string, newToken: string, score: number | string): Promise<Reply> {
    return this.#run(this.scripts.recheck, [token, newToken, LEASE_MS, score]);
  }

  /** @param newToken queue again with it */
  release(token: string, used: number, newToken = '', keepMs = 0): Promise<Reply> {
    const args = [token, used, newToken, LEASE_MS, keepMs];
    return this.#run(this.scripts.release, used === 0 ? [token] : args);
  }

  /** @param take a last try */
  async leave(token: string, { other = '', take = false } = {}): Promise<Reply> {
    if (take) return this.#run(this.scripts.leave, [token, other, LEASE_MS]);
    const reply = await this.#run(this.scripts.takeBack, [token, other, 0, 0]);
    if (reply[0] !== 'left' && reply[0] !== 'again') throw new Error(String(reply[0]));
    return reply;
  }

  async renew(token: string, used: number, leaseMs = LEASE_MS, reserves = true): Promise<Reply> {
    const [reply] = await this.renewAll([{ bench: this, token, used, leaseMs, reserves }]);
    return reply as Reply;
  }

  async renewAll(
    leases: readonly {
      bench: ScriptBench;
      token: string;
      used: number;
      leaseMs?: number;
      reserves?: boolean;
    }[],
  ): Promise<Reply[]> {
    const replies = await runScript(
      this.redis,
      this.scripts.renew,
      leases.flatMap(({ bench }) => bench.keys),
      leases.flatMap(({ token, leaseMs = LEASE_MS, used, reserves = true }) => [
        token,
        leaseMs,
        used,
        reserves ? 1 : 0,
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

  revoke(id: string): Promise<unknown> {
    return this.#run(this.scripts.revoke, [id]);
  }

  /** What Redis keeps of the key; lifetimes and the time of writing aside. */
  async state(): Promise<{ lock: string | null; queue: string[]; fence: string | null }> {
    const [lock, queue, fence] = await Promise.all([
      this.redis.get(this.lock),
      this.redis.zrange(this.queue, '0', '-1', 'WITHSCORES'),
      this.redis.get(this.fence),
    ]);
    return { lock, queue, fence: fence?.replace(/(?<=^\d+) \d+$/, '') ?? null };
  }

  /** The waiting tokens in order. */
  async waiting(): Promise<string[]> {
    return this.redis.zrange(this.queue, '0', '-1');
  }

  async lockLifeMs(): Promise<number> {
    return this.redis.pttl(this.lock);
  }

  /** Puts tokens into the queue behind everybody. */
  async enqueue(...tokens: string[]): Promise<void> {
    const [, last = '1000'] = await this.redis.zrange(this.queue, '-1', '-1', 'WITHSCORES');
    let score = Number(last);
    await this.redis.zadd(this.queue, ...tokens.flatMap((token) => [++score, token]));
    await this.redis.pexpire(this.queue, 60_000);
  }

  async assertEverythingEnds(): Promise<void> {
    for (const key of this.keys) {
      if ((await this.redis.pttl(key)) === -1 && !this.#endless.has(key)) {
        throw new Error(`'${key}' has no end`);
      }
    }
  }

  readonly #endless = new Set<string>();

  /** A key of the test's own making, which may stay for ever. */
  async setEndless(key: string, value: string): Promise<void> {
    this.#endless.add(key);
    await this.redis.set(key, value);
  }

  /** @returns an answer of one word or number as a list, too */
  async #run(script: RedisScript, args: readonly (string | number)[]): Promise<Reply> {
    const reply = await runScript(this.redis, script, this.keys, args);
    await this.assertEverythingEnds();
    return (typeof reply === 'string' ? [reply] : reply) as Reply;
  }
}

/** A process as the scripts see it: tokens and an inbox. */
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

  /** Every message that was published before this call, and not told by an earlier one. */
  async heard(): Promise<string[]> {
    const end = new Promise<void>((resolve) => (this.#onEnd = resolve));
    await this.#redis.publish(this.channel, 'end');
    await end;
    return this.#heard.splice(0);
  }
}
