import { LockStoreError } from '../../../core/lock.errors.js';
import type { Clock } from '../../../core/time/clock.js';
import { isReplyError } from '../../scripts/reply-error.js';
import { reasonOf } from '../server/reason-of.js';
import type { RedisClient, RedisConnection } from '../server/redis-client.js';
import { Heartbeat } from '../silence/heartbeat.js';
import { withinLimit } from '../silence/time-limit.js';
import { OwnConnection } from './own-connection.js';

export interface RedisInboxOptions {
  /** Shown by CLIENT LIST. */
  readonly name: string;
  /** Determines the name of the channel on a new connection. */
  readonly channel: (redis: RedisConnection) => Promise<string>;
  readonly clock: Clock;
  readonly timeLimitMs: number;
  /** How often the connection is checked. */
  readonly pingEveryMs: number;
}

export interface RedisInboxListener {
  message(message: string): void;
  /** Something was published on a watched channel. */
  published(channel: string): void;
  subscribed(): void;
  /** No messages will arrive until `subscribed`. */
  lost(cause: LockStoreError): void;
  /** A dead idle connection was replaced. */
  replaced(cause: LockStoreError): void;
  /** The connection broke, or it or the subscription was refused; it is retried. */
  failed(error: unknown): void;
}

/** The pause before a refused subscription is repeated, to avoid a tight loop. */
const RESUBSCRIBE_MS = 1_000;

/**
 * One subscription per process, on a separate connection. We resubscribe ourselves after every reconnect, because
 * messages arrive again only after the acknowledgement.
 */
export class RedisInbox {
  readonly #options: RedisInboxOptions;
  readonly #listener: RedisInboxListener;
  readonly #connection: OwnConnection;
  readonly #heartbeat: Heartbeat;
  #ready = false;
  #channel: string | undefined;
  #closed = false;
  #cancelResubscribe: () => void = () => {};
  /** Why a dead connection is being replaced, and until when that does not count as an outage. */
  #replacing: { readonly cause: LockStoreError; readonly until: number } | undefined;
  #lastError: unknown;
  #connections = 0;
  /** Channels besides our own, and whether each is subscribed to on the current connection. */
  readonly #watched = new Map<string, boolean>();

  constructor(client: RedisClient, options: RedisInboxOptions, listener: RedisInboxListener) {
    const { name, clock, timeLimitMs, pingEveryMs: everyMs } = options;
    this.#options = options;
    this.#listener = listener;
    this.#heartbeat = new Heartbeat(
      { clock, everyMs, timeLimitMs },
      () => void this.#beat(this.#connections),
      (silentMs) => this.#replace(silentMs),
    );
    this.#connection = new OwnConnection(
      client,
      { name, clock, timeLimitMs },
      {
        ready: () => void this.#subscribe(++this.#connections).catch(() => {}), // a listener's error, not ours
        closed: () => {
          this.#connections++;
          this.#lastError ??= new Error('the connection was closed');
          this.#lost();
        },
        failed: (error) => this.#failed(error),
      },
    );
    this.#connection.redis.on('message', (from, message) => {
      this.#heartbeat.heard();
      if (from === this.#channel) listener.message(message);
      if (this.#watched.has(from)) listener.published(from);
    });
  }

  get ready(): boolean {
    return this.#ready;
  }

  /** The present or last channel. */
  get channel(): string | undefined {
    return this.#channel;
  }

  /** The number of connections so far, which identifies the current one. */
  get connections(): number {
    return this.#connections;
  }

  /**
   * Also listens to this channel until `unwatch`, and on every later connection from its beginning.
   * @returns when it is subscribed to; at once if the connection is down @throws LockStoreError
   */
  async watch(channel: string): Promise<void> {
    this.#watched.set(channel, false);
    const connection = this.#connections;
    if (!this.#ready) return;
    await this.#limited('subscribe', async () => {
      this.#connection.sends();
      await this.#connection.redis.subscribe(channel);
    });
    if (connection === this.#connections && this.#watched.has(channel))
      this.#watched.set(channel, true);
  }

  /** Messages of the channel are ignored from now on. @throws LockStoreError if they will arrive nevertheless */
  async unwatch(channel: string): Promise<void> {
    if (!this.#watched.delete(channel) || !this.#ready) return;
    await this.#limited('unsubscribe', async () => {
      this.#connection.sends();
      await this.#connection.redis.unsubscribe(channel);
    });
  }

  /** Whether this watched channel is subscribed to. */
  hears(channel: string): boolean {
    return this.#ready && this.#watched.get(channel) === true;
  }

  /** Called when the connection is known to lead to the right server. If it breaks, a new one is made without delay. */
  proved(): void {
    this.#connection.proved();
  }

  /** Whether the current connection answers; one that just broke may not have been noticed yet. Never rejects. */
  async answers(): Promise<boolean> {
    const connection = this.#connections;
    const isAnswered = await this.#limited('ping', () => this.#ping()).then(
      () => true,
      ({ cause }: LockStoreError) => isReplyError(cause),
    );
    return isAnswered && connection === this.#connections && this.#ready;
  }

  /** Drops the connection and makes a new one. */
  reconnect(): void {
    this.#lost();
    if (!this.#closed) this.#connection.reconnect();
  }

  close(): void {
    this.#closed = true;
    this.#lost();
    this.#connection.close();
  }

  /** @param connection its number; the outcome on an older connection is ignored */
  async #subscribe(connection: number): Promise<void> {
    const isCurrent = (): boolean => connection === this.#connections && !this.#closed;
    const askedAt = this.#options.clock.now();
    const watched = [...this.#watched.keys()];
    try {
      const { redis } = this.#connection;
      await this.#limited('subscribe to the inbox', async () => {
        this.#connection.sends();
        this.#channel = await this.#options.channel(redis);
        this.#connection.sends();
        await redis.subscribe(this.#channel, ...watched);
      });
      if (!isCurrent()) return;
      this.#ready = true;
      for (const channel of this.#watched.keys()) {
        this.#watched.set(channel, watched.includes(channel));
        if (!watched.includes(channel)) void this.watch(channel).catch(() => {}); // it is polled
      }
      this.#lastError = undefined;
      this.#heartbeat.start(this.#options.clock.now() - askedAt);
    } catch (error) {
      if (!isCurrent()) return;
      this.#failed(error);
      this.#cancelResubscribe = this.#options.clock.after(RESUBSCRIBE_MS, () => this.reconnect());
      return;
    }
    const replacing = this.#replacing;
    this.#replacing = undefined;
    if (replacing !== undefined && replacing.until > this.#options.clock.now())
      this.#listener.replaced(replacing.cause);
    this.#listener.subscribed();
  }

  #failed(error: unknown): void {
    if (this.#closed) return;
    this.#lastError = error;
    this.#listener.failed(error);
  }

  /** Any answer is a sign of life, even a refusal. A broken connection is detected by its end. */
  async #beat(connection: number): Promise<void> {
    await this.#ping().catch(() => {});
    if (connection === this.#connections && this.#ready) this.#heartbeat.heard();
  }

  async #ping(): Promise<void> {
    this.#connection.sends();
    await this.#connection.redis.ping();
  }

  #replace(silentMs: number): void {
    this.#lastError = new LockStoreError(
      `The connection for messages was idle, and did not answer within ${silentMs} ms`,
    );
    const { clock, timeLimitMs } = this.#options;
    this.#replacing = {
      cause: this.#lastError as LockStoreError,
      until: clock.now() + timeLimitMs,
    };
    this.#lost();
    this.#connection.abandon();
  }

  #lost(): void {
    this.#cancelResubscribe();
    this.#heartbeat.stop();
    if (!this.#ready) return;
    this.#ready = false;
    if (!this.#closed) this.#listener.lost(this.loss);
  }

  /** The reason why it is not subscribed. */
  get loss(): LockStoreError {
    const cause = this.#lastError;
    const because = cause === undefined ? '' : `: ${reasonOf(cause)}`;
    return new LockStoreError(`the subscription is lost${because}`, undefined, { cause });
  }

  #limited(action: string, command: () => Promise<unknown>): Promise<unknown> {
    return withinLimit(this.#options.clock, this.#options.timeLimitMs, action, command);
  }
}
