import { afterReading } from '../../../core/runtime/arrived-messages.js';
import { ForeignAnswer } from '../server/foreign-answer.js';
import type { RedisConnection } from '../server/redis-client.js';

/** What ioredis sends goes through this method, which is no part of what the library asks of a client. */
interface SendsCommands {
  sendCommand(...sent: unknown[]): unknown;
}

/**
 * Hears the refusal of a server with too many connections, which says so on a new connection and closes it, or the
 * answer of a server that is not Redis; ioredis does not expose it.
 */
export class HeardRefusal {
  readonly #redis: RedisConnection;
  /** The data received on the connection being made. */
  #said = '';

  constructor(redis: RedisConnection) {
    this.#redis = redis;
    this.#joinHandshake();
    redis.on('connect', () => {
      this.#said = '';
      redis.stream?.on('data', (data) => {
        if (redis.status !== 'ready') this.#said += data.toString('latin1', 0, 500);
      });
    });
    redis.on('ready', () => (this.#said = '')); // the connection is in use
  }

  /** The refusal, if it is all that the server has sent on this connection. */
  get error(): Error | undefined {
    const [, refusal] = /^-(?:ERR )?([^\r\n]+)\r\n$/.exec(this.#said) ?? [];
    return refusal === undefined ? undefined : new Error(refusal);
  }

  /**
   * The same, for the last time: later errors have other reasons.
   * @param unreadable the error of ioredis, if it could not read what the server has sent
   */
  take(unreadable?: Error): Error | undefined {
    const error =
      unreadable === undefined ? this.error : new ForeignAnswer(this.#said, { cause: unreadable });
    this.#said = '';
    return error;
  }

  /**
   * Joins the commands with which ioredis begins a connection into one write, after what has arrived was read. Once the
   * server has closed the connection, the first write to a Unix socket fails, and the second one to any other does,
   * before the refusal is read.
   */
  #joinHandshake(): void {
    const redis: RedisConnection & Partial<SendsCommands> = this.#redis;
    const send = redis.sendCommand?.bind(redis);
    if (send === undefined) return;
    redis.sendCommand = (...sent) => {
      const { stream } = redis;
      if (redis.status === 'connect' && stream !== undefined) {
        stream.cork();
        afterReading(() => stream.uncork()); // ioredis 5 does not send all in one go
      }
      return send(...sent);
    };
  }
}
