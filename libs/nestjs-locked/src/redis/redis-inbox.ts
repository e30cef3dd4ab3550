import type { Clock } from '../core/clock.js';
import type { RedisClient, RedisSubscriber } from './redis-client.js';
import { reconnectDelay } from './open-redis.js';
import { withinLimit } from './time-limit.js';

export interface RedisInboxOptions {
  readonly channel: string;
  readonly clock: Clock;
  readonly timeLimitMs: number;
  /** How often the connection is checked; a half-open one is silent for ever otherwise. */
  readonly pingEveryMs: number;
}

export interface RedisInboxListener {
  message(message: string): void;
  subscribed(): void;
  lost(): void;
  /** The connection was refused, broke, or what was asked of it was refused. It is tried again. */
  failed(error: unknown): void;
}

/**
 * One subscription per process, on a connection of its own, to the master. It is renewed by hand after every
 * reconnect, because the acknowledgement matters: only then do messages arrive again.
 */
export class RedisInbox {
  readonly #options: RedisInboxOptions;
  readonly #listener: RedisInboxListener;
  readonly #connection: RedisSubscriber;
  #ready = false;
  #closed = false;
  #cancelPing: () => void = () => {};
  #generation = 0;

  constructor(client: RedisClient, options: RedisInboxOptions, listener: RedisInboxListener) {
    this.#options = options;
    this.#listener = listener;
    this.#connection = client.duplicate({
      role: 'master',
      lazyConnect: false,
      enableOfflineQueue: true,
      maxRetriesPerRequest: null,
      autoResubscribe: false,
      autoResendUnfulfilledCommands: false,
      retryStrategy: reconnectDelay,
      // A server that accepts the connection and then says nothing is left, too.
      socketTimeout: options.timeLimitMs,
      connectionName: options.channel,
    });
    this.#connection.on('error', (error) => this.#failed(error));
    this.#connection.on('close', () => this.#lost());
    this.#connection.on('ready', () => void this.#subscribe(++this.#generation));
    this.#connection.on('message', (channel, message) => {
      if (channel === options.channel) listener.message(message);
    });
  }

  get ready(): boolean {
    return this.#ready;
  }

  close(): void {
    this.#closed = true;
    this.#lost();
    this.#connection.disconnect();
  }

  /** @param generation of the connection: what becomes of an older one does not matter */
  async #subscribe(generation: number): Promise<void> {
    const isCurrent = (): boolean => generation === this.#generation && !this.#closed;
    try {
      await this.#limited('subscribe to the inbox', () =>
        this.#connection.subscribe(this.#options.channel),
      );
      if (!isCurrent()) return;
      this.#ready = true;
      this.#armPing();
      this.#listener.subscribed();
    } catch (error) {
      if (!isCurrent()) return;
      this.#failed(error);
      this.#reconnectLater();
    }
  }

  #failed(error: unknown): void {
    if (!this.#closed) this.#listener.failed(error);
  }

  #armPing(): void {
    this.#cancelPing = this.#options.clock.after(
      this.#options.pingEveryMs,
      () => void this.#ping(),
    );
  }

  async #ping(): Promise<void> {
    try {
      await this.#limited('ping the inbox', () => this.#connection.ping());
      if (this.#ready) this.#armPing();
    } catch (error) {
      this.#failed(error);
      if (this.#ready) this.#reconnect();
    }
  }

  #lost(): void {
    this.#cancelPing();
    if (!this.#ready) return;
    this.#ready = false;
    if (!this.#closed) this.#listener.lost();
  }

  /** A refused subscription is refused again at once: not in a tight loop. */
  #reconnectLater(): void {
    this.#cancelPing = this.#options.clock.after(1_000, () => this.#reconnect());
  }

  #reconnect(): void {
    this.#lost();
    if (!this.#closed) this.#connection.disconnect(true);
  }

  #limited(action: string, command: () => Promise<unknown>): Promise<unknown> {
    return withinLimit(this.#options.clock, this.#options.timeLimitMs, action, command);
  }
}
