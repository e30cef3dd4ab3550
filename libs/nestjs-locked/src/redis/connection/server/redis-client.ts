import type { ScriptClient } from '../../scripts/redis-script.js';

/**
 * An ioredis 5 or 6 client, which `connection` accepts besides a URL and options. Only its address and credentials are
 * used: the locks have their own connections, made by `duplicate`. So the client stays yours in every respect. It may
 * be busy with a blocking command, a subscription or a transaction; it may select another database, not be connected,
 * or be closed before the locks are.
 */
export interface RedisClient {
  /** The client's options, which are read. */
  readonly options: {
    readonly keyPrefix?: string | undefined;
    readonly connectionName?: string | null | undefined;
    readonly sentinels?: readonly Partial<{ host: string; port: number }>[] | null | undefined;
    /** How long a sentinel may take to answer, in milliseconds. */
    readonly sentinelCommandTimeout?: number | undefined;
    /** The sentinels' name of the master. */
    readonly name?: string | undefined;
    readonly host?: string | undefined;
    readonly port?: number | undefined;
    /** The path of a Unix socket. */
    readonly path?: string | null | undefined;
    readonly db?: number | undefined;
    readonly tls?: object | undefined;
    /** Read again before every reconnect, because passwords may change. */
    readonly username?: string | null | undefined;
    readonly password?: string | null | undefined;
    readonly reconnectOnError?: ((error: Error) => boolean | 1 | 2) | null | undefined;
  };
  /** Creates a separate connection to the same server, with these options overriding the client's. */
  duplicate(override: object): RedisConnection;
}

/** The part of our own connections that is used, which ioredis 5 and 6 both have. */
export interface RedisConnection extends ScriptClient {
  /** For instance `connecting`, `connect`, `ready`, `reconnecting`, `end`. */
  readonly status: string;
  /** The client's, with the overriding ones. */
  readonly options: {
    /** The database that was asked for. */
    readonly db?: number | undefined;
  };
  /** The socket; undefined before the first attempt to connect. */
  readonly stream?: {
    cork(): void;
    uncork(): void;
    destroy(error?: Error): unknown;
    /** Calls back whenever bytes have arrived. */
    on(event: 'data', listener: (data: Buffer) => void): unknown;
    on(event: 'error', listener: (error: Error) => void): unknown;
  };
  /** The unanswered commands. */
  readonly commandQueue: {
    /** Their number. */
    readonly length: number;
  };
  connect(): Promise<unknown>;
  /** @param reconnect true: drops the connection and makes a new one */
  disconnect(reconnect?: boolean): void;
  script(subcommand: 'LOAD', script: string): Promise<unknown>;
  info(section: string): Promise<string>;
  /** Sends a command by its name. */
  call(command: string, ...args: (string | number)[]): Promise<unknown>;
  get(key: string): Promise<string | null>;
  set(key: string, value: string, mode: 'PX', milliseconds: number): Promise<unknown>;
  del(key: string): Promise<unknown>;
  scan(
    cursor: string,
    match: 'MATCH',
    pattern: string,
    count: 'COUNT',
    size: number,
  ): Promise<[cursor: string, keys: string[]]>;
  subscribe(...channels: string[]): Promise<unknown>;
  unsubscribe(channel: string): Promise<unknown>;
  /** The id of the cluster node at the other end, or the nodes of all slots. */
  cluster(subcommand: 'MYID' | 'SLOTS'): Promise<unknown>;
  /** Announces that the next command concerns a slot that this server is importing. */
  asking(): Promise<unknown>;
  ping(): Promise<unknown>;
  on(event: 'connect' | 'ready' | 'close' | 'end', listener: () => void): unknown;
  on(event: 'error', listener: (error: Error) => void): unknown;
  on(event: 'message', listener: (channel: string, message: string) => void): unknown;
}
