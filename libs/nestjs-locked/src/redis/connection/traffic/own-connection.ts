import type { Clock } from '../../../core/time/clock.js';
import { attendToSentinels, sentinelDelay } from '../sentinel/sentinel-listeners.js';
import { SentinelQuestions } from '../sentinel/sentinel-questions.js';
import { CLOSED, reasonOf } from '../server/reason-of.js';
import type { RedisClient, RedisConnection } from '../server/redis-client.js';
import { SilenceWatch } from '../silence/silence-watch.js';

export interface OwnConnectionOptions {
  /** Shown by CLIENT LIST. */
  readonly name: string;
  readonly clock: Clock;
  /** How long a command may take. */
  readonly timeLimitMs: number;
}

export interface OwnConnectionListener {
  ready(): void;
  /** The connection is closed, or an attempt to connect has failed. */
  closed(): void;
  failed(error: unknown): void;
}

/** At most this many commands are one write. */
const MOST_JOINED = 16;

/** How long a connection that we give up may take to close in good order. */
const DISCONNECT_MS = 500;

/** How long to wait before ioredis is asked to connect again after it has given up. */
const REVIVAL_MS = 1_000;

/**
 * A connection to the same server as the user's client, but always to the master, that comes back whatever happens.
 * ioredis keeps no command for it and repeats none, because a command that was given while the connection was down may
 * be long out of date when it returns.
 */
export class OwnConnection {
  readonly redis: RedisConnection;
  readonly #client: RedisClient;
  readonly #silence: SilenceWatch;
  readonly #questions: SentinelQuestions;
  /** Attempts to connect since a connection was last of use. */
  #attempts = 0;
  #closed = false;
  /** The present connection was given up, and the next one is made at once. */
  #isAbandoned = false;
  /** It was closed while a connection was being made. */
  #wasConnecting = false;
  /** The socket to which commands of this turn of the event loop were written, and how many after the first one. */
  #written: RedisConnection['stream'];
  #joined = 0;
  /** What the server has said on the connection that is being made. */
  #said = '';
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
      lazyConnect: true, // until it is watched, below
      // A planned failover breaks no connection. If the sentinels did not tell us, we would stay on the old master.
      role: 'master',
      failoverDetector: true,
      // If the user's function wants the command sent again, we do that ourselves, in the right order.
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
    // The limit of the command comes first, so that its failure says that there was no answer.
    this.#silence = new SilenceWatch(this.redis, clock, Math.ceil(timeLimitMs * 1.2));
    let sentinelError: Error | undefined;
    this.redis.on('error', (error) => {
      if (!this.#closed) listener.failed(explained(error, sentinelError));
    });
    this.#questions = new SentinelQuestions(this.redis, {
      limitMs: client.options.sentinelCommandTimeout,
      onError: (error) => (sentinelError = error),
    });
    attendToSentinels(this.redis, () => this.reconnect());
    this.redis.on('connect', () => this.#readRefusal());
    this.redis.on('ready', () => {
      this.#said = ''; // it stays in use
      if (!this.#closed) listener.ready();
    });
    this.redis.on('close', () => {
      const refusal = refusalIn(this.#said);
      this.#said = '';
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

  /** A server that has too many connections says so and closes the new one. ioredis does not pass that on. */
  #readRefusal(): void {
    this.#said = '';
    this.redis.stream?.on('data', (data) => {
      if (this.redis.status !== 'ready') this.#said += data.toString('latin1', 0, 500);
    });
  }

  /** A command is sent now. The server must not be silent until it has answered. */
  sends(): void {
    this.#silence.sends();
  }

  /**
   * Joins the commands that are written in one turn of the event loop into few writes to the socket. Each write is a
   * system call, which costs more than all the rest of a command. The first one is written at once, and so is every
   * sixteenth: the server should begin while we continue, and the turn may be long.
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
    process.nextTick(() => {
      stream.uncork();
      if (this.#written === stream) this.#written = undefined;
    });
  }

  /** The connection has proved to be of use. If it breaks, a new one is made without delay. */
  proved(): void {
    this.#attempts = 0;
    this.#silence.proved();
  }

  /** Drops the connection and makes a new one, unless one is being made already. */
  reconnect(): void {
    const { status } = this.redis;
    // If a connection is still being made, ioredis would give up for good.
    if (status === 'connect' || status === 'ready') this.redis.disconnect(true);
  }

  /** The same for a connection that is dead: it is not closed in good order, because nobody would answer. */
  abandon(): void {
    this.#isAbandoned = true;
    this.redis.stream?.destroy();
  }

  close(): void {
    this.#closed = true;
    this.#wasConnecting = this.redis.status === 'connecting';
    this.#cancelRevival();
    this.#silence.stop();
    this.redis.disconnect();
    this.#questions.leave();
  }

  #delayMs(): number {
    // A password that was changed on the client is meant for us as well.
    const { username, password } = this.#client.options;
    Object.assign(this.redis.options, { username, password });
    if (this.#isAbandoned) {
      this.#isAbandoned = false;
      return 0;
    }
    return reconnectDelay(++this.#attempts);
  }

  /**
   * If `close` came while a connection was being made, ioredis has begun to listen to the sentinels after that.
   * Otherwise it must not be told twice: it would wait two seconds for connections that are closed already.
   */
  #leaveSentinels(): void {
    if (this.#wasConnecting && this.#client.options.sentinels) this.redis.disconnect();
  }

  #connect(): void {
    this.redis.connect().catch(() => {}); // reported as `error`
  }
}

/** An error that is all the server has said on a connection. */
function refusalIn(said: string): Error | undefined {
  const [, refusal] = /^-(?:ERR )?([^\r\n]+)\r\n$/.exec(said) ?? [];
  return refusal === undefined ? undefined : new Error(refusal);
}

/** @param cause what the socket has said */
function explained(error: Error, cause: Error | undefined): Error {
  if (cause === undefined || !error.message.includes(CLOSED)) return error;
  return new Error(error.message.replace(CLOSED, reasonOf(cause)), { cause });
}

/** How long to wait before the next attempt, in milliseconds. */
export function reconnectDelay(times: number): number {
  return Math.min(50 * 2 ** Math.min(times, 5), 1_000);
}
