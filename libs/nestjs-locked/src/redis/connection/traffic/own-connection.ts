import type { Clock } from '../../../core/time/clock.js';
import { isReplyError } from '../../scripts/reply-error.js';
import { attendToSentinels, sentinelDelay } from '../sentinel/sentinel-listeners.js';
import { SentinelQuestions } from '../sentinel/sentinel-questions.js';
import { unreadableIn } from '../server/foreign-answer.js';
import { CLOSED, reasonOf } from '../server/reason-of.js';
import type { RedisClient, RedisConnection } from '../server/redis-client.js';
import { SilenceWatch } from '../silence/silence-watch.js';
import { HeardRefusal } from './heard-refusal.js';
import { atTurnEnd } from './turn-end.js';

export interface OwnConnectionOptions {
  /** Shown by CLIENT LIST. */
  readonly name: string;
  readonly clock: Clock;
  /** How long a command may take. */
  readonly timeLimitMs: number;
}

export interface OwnConnectionListener {
  ready(): void;
  /** The connection was closed, or an attempt to connect has failed. */
  closed(): void;
  failed(error: unknown): void;
}

/** The most commands in one write. */
const MOST_JOINED = 16;

/** How long an abandoned connection may take to close gracefully. */
const DISCONNECT_MS = 500;

/** The pause before ioredis is made to connect again after it has given up. */
const REVIVAL_MS = 1_000;

/**
 * A connection to the same server as the user's client, but always to the master, that reconnects after any failure.
 * ioredis neither queues nor repeats commands on it, because a command issued while the connection was down may be
 * outdated when it is back.
 */
export class OwnConnection {
  readonly redis: RedisConnection;
  readonly #client: RedisClient;
  readonly #silence: SilenceWatch;
  readonly #questions: SentinelQuestions;
  /** The number of attempts to connect since a connection was last useful. */
  #attempts = 0;
  #closed = false;
  /** Whether the current connection was abandoned, so that the next one is made at once. */
  #isAbandoned = false;
  /** Whether it was closed while connecting. */
  #wasConnecting = false;
  /** The socket to which commands of this turn of the event loop were written, and the number after the first. */
  #written: RedisConnection['stream'];
  #joined = 0;
  #cancelRevival: () => void = () => {};

  constructor(
    client: RedisClient,
    { name, clock, timeLimitMs }: OwnConnectionOptions,
    listener: OwnConnectionListener,
  ) {
    this.#client = client;
    const { reconnectOnError } = client.options;
    this.redis = client.duplicate({
      connectionName: name,
      lazyConnect: true, // until watched, below
      // A planned failover breaks no connection: without notice from the sentinels, we would stay on the old master.
      role: 'master',
      failoverDetector: true,
      // If the user's function wants a command resent, we do that ourselves, in the right order.
      reconnectOnError: (error: Error) => (reconnectOnError?.(error) ? 1 : false),
      retryStrategy: () => this.#delayMs(),
      sentinelRetryStrategy: reconnectDelay,
      sentinelReconnectStrategy: sentinelDelay,
      enableOfflineQueue: false,
      autoResendUnfulfilledCommands: false,
      maxRetriesPerRequest: null,
      autoResubscribe: false,
      enableAutoPipelining: false,
      commandTimeout: undefined,
      monitor: false,
      scripts: undefined,
      himportFieldsets: undefined,
      socketTimeout: undefined, // see `SilenceWatch`
      disconnectTimeout: DISCONNECT_MS,
    });
    // The command's limit expires first, so that its failure reports the missing answer.
    this.#silence = new SilenceWatch(this.redis, clock, Math.ceil(timeLimitMs * 1.2));
    const heard = new HeardRefusal(this.redis);
    let sentinelError: Error | undefined;
    let unreadable: Error | undefined;
    this.redis.on('error', (error) => {
      if (this.#closed || isOfSelect(error)) return;
      // The answer is complete when the connection has closed.
      if (this.redis.status === 'connect' && unreadableIn(error) !== undefined) {
        unreadable = error;
        return;
      }
      const refusal = isReplyError(error) ? undefined : heard.error;
      listener.failed(refusal ?? explained(error, sentinelError));
    });
    this.#questions = new SentinelQuestions(this.redis, {
      limitMs: client.options.sentinelCommandTimeout,
      onError: (error) => (sentinelError = error),
    });
    attendToSentinels(this.redis, () => this.reconnect());
    this.redis.on('ready', () => {
      if (!this.#closed) listener.ready();
    });
    this.redis.on('close', () => {
      const refusal = heard.take(unreadable);
      unreadable = undefined;
      if (this.#closed) return;
      if (refusal !== undefined) listener.failed(refusal);
      listener.closed();
    });
    this.redis.on('end', () => {
      if (this.#closed) return this.#leaveSentinels();
      this.#cancelRevival = clock.after(REVIVAL_MS, () => this.#connect());
    });
    this.#connect();
  }

  /** Called when a command is sent, whose answer is then awaited. */
  sends(): void {
    this.#silence.sends();
  }

  /**
   * Joins the commands of one turn of the event loop into few writes to the socket. Each write is a system call, which
   * costs more than the rest of a command. The first command is written at once, and so is every sixteenth, so that the
   * server can begin during a long turn.
   */
  joinWrites(): void {
    const { stream } = this.redis;
    if (stream === undefined) return;
    if (stream === this.#written) {
      if (this.#joined > 0 && this.#joined % MOST_JOINED === 0) stream.uncork();
      if (this.#joined++ % MOST_JOINED === 0) stream.cork();
      return;
    }
    this.#written = stream;
    this.#joined = 0;
    atTurnEnd(() => {
      stream.uncork();
      if (this.#written === stream) this.#written = undefined;
    });
  }

  /** Called when the connection has proved useful. If it breaks, a new one is made without delay. */
  proved(): void {
    this.#attempts = 0;
    this.#silence.proved();
  }

  /** Drops the connection and makes a new one, unless already connecting. */
  reconnect(): void {
    const { status } = this.redis;
    // While connecting, ioredis would give up for good.
    if (status === 'connect' || status === 'ready') this.redis.disconnect(true);
  }

  /** The same for a dead connection, which is not closed gracefully, because the server would not answer. */
  abandon(): void {
    this.#isAbandoned = true;
    this.redis.stream?.destroy();
  }

  close(): void {
    this.#closed = true;
    this.#wasConnecting = this.redis.status === 'connecting';
    this.#cancelRevival();
    this.#silence.stop();
    // During a TLS handshake this may fail twice. ioredis listens once, and the second error would end the process.
    this.redis.stream?.on('error', () => {});
    this.redis.disconnect();
    this.#questions.leave();
  }

  #delayMs(): number {
    // A password changed on the client applies to our connection too.
    const { username, password } = this.#client.options;
    Object.assign(this.redis.options, { username, password });
    if (this.#isAbandoned) {
      this.#isAbandoned = false;
      return 0;
    }
    return reconnectDelay(++this.#attempts);
  }

  /**
   * Disconnects from the sentinels, to which ioredis has begun to listen after a `close` while connecting. Otherwise it
   * must not be told twice, because it would wait two seconds for connections already closed.
   */
  #leaveSentinels(): void {
    if (this.#wasConnecting && this.#client.options.sentinels) this.redis.disconnect();
  }

  #connect(): void {
    this.redis.connect().catch(() => {}); // reported as `error`
  }
}

/**
 * Whether ioredis could not select the database. For commands, `selectDatabase` tries it again and says why. Messages
 * belong to no database.
 */
function isOfSelect(error: Error & { command?: { name?: string } }): boolean {
  return error.command?.name === 'select';
}

/** @param cause the error read from the socket */
function explained(error: Error, cause: Error | undefined): Error {
  if (cause === undefined || !error.message.includes(CLOSED)) return error;
  return new Error(error.message.replace(CLOSED, reasonOf(cause)), { cause });
}

/** The pause before the next attempt, in milliseconds. */
export function reconnectDelay(times: number): number {
  return Math.min(50 * 2 ** Math.min(times, 5), 1_000);
}
