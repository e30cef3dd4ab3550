import type { Clock } from '../../core/time/clock.js';
import { OwnConnection } from './own-connection.js';
import type { RedisClient, RedisConnection } from './redis-client.js';
import { withinLimit } from './time-limit.js';

export interface RedisInboxOptions {
  /** Shown by CLIENT LIST. */
  readonly name: string;
  /** Finds out the name of the channel, on a connection that is new. */
  readonly channel: (redis: RedisConnection) => Promise<string>;
  readonly clock: Clock;
  readonly timeLimitMs: number;
  /** How often the connection is checked. Without a check, a half-open connection would be silent for ever. */
  readonly pingEveryMs: number;
}

export interface RedisInboxListener {
  message(message: string): void;
  subscribed(): void;
  lost(): void;
  /** The connection broke, or it or the subscription was refused. It is tried again. */
  failed(error: unknown): void;
}

/** A refused subscription would be refused again at once, so it is not repeated in a tight loop. */
const RESUBSCRIBE_MS = 1_000;

/**
 * One subscription per process, on a connection of its own. We subscribe again ourselves after every reconnect, because
 * messages arrive again only after the acknowledgement.
 */
export class RedisInbox {
  readonly #options: RedisInboxOptions;
  readonly #listener: RedisInboxListener;
  readonly #connection: OwnConnection;
  #ready = false;
  #channel: string | undefined;
  #closed = false;
  #cancelTimer: () => void = () => {};
  #connections = 0;

  constructor(client: RedisClient, options: RedisInboxOptions, listener: RedisInboxListener) {
    const { name, clock, timeLimitMs } = options;
    this.#options = options;
    this.#listener = listener;
    this.#connection = new OwnConnection(
      client,
      { name, clock, timeLimitMs },
      {
        ready: () => void this.#subscribe(++this.#connections).catch(() => {}), // a listener's error, not ours
        closed: () => {
          this.#connections++;
          this.#lost();
        },
        failed: (error) => this.#failed(error),
      },
    );
    this.#connection.redis.on('message', (from, message) => {
      if (from === this.#channel) listener.message(message);
    });
  }

  get ready(): boolean {
    return this.#ready;
  }

  /** How many connections there have been. If the number has changed, the connection is another one. */
  get connections(): number {
    return this.#connections;
  }

  /** The connection leads to the right server. If it breaks, a new one is made without delay. */
  proved(): void {
    this.#connection.proved();
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

  /** @param connection its number; what becomes of an older connection does not matter */
  async #subscribe(connection: number): Promise<void> {
    const isCurrent = (): boolean => connection === this.#connections && !this.#closed;
    try {
      const { redis } = this.#connection;
      await this.#limited('subscribe to the inbox', async () => {
        this.#channel = await this.#options.channel(redis);
        await redis.subscribe(this.#channel);
      });
      if (!isCurrent()) return;
      this.#ready = true;
      this.#armPing();
    } catch (error) {
      if (!isCurrent()) return;
      this.#failed(error);
      this.#cancelTimer = this.#options.clock.after(RESUBSCRIBE_MS, () => this.reconnect());
      return;
    }
    this.#listener.subscribed();
  }

  #failed(error: unknown): void {
    if (!this.#closed) this.#listener.failed(error);
  }

  #armPing(): void {
    this.#cancelTimer = this.#options.clock.after(
      this.#options.pingEveryMs,
      () => void this.#ping(this.#connections).catch(() => {}),
    );
  }

  async #ping(connection: number): Promise<void> {
    const isCurrent = (): boolean => connection === this.#connections && this.#ready;
    try {
      await this.#limited('ping the inbox', () => this.#connection.redis.ping());
      if (isCurrent()) this.#armPing();
    } catch (error) {
      if (!isCurrent()) return;
      this.#failed(error);
      this.reconnect();
    }
  }

  #lost(): void {
    this.#cancelTimer();
    if (!this.#ready) return;
    this.#ready = false;
    if (!this.#closed) this.#listener.lost();
  }

  #limited(action: string, command: () => Promise<unknown>): Promise<unknown> {
    return withinLimit(this.#options.clock, this.#options.timeLimitMs, action, command);
  }
}
